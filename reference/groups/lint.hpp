// reference/groups/lint.hpp: whether the group creations of all ranks fit together, or hang, or mix members.
//
// Model   A log holds, for each rank, the groups that it makes, in its order. Under rule all_ranks (torch's new_group)
//         every rank takes part in every creation, also of groups without it, so all sequences must be equal. Under
//         members_only (MPI_Comm_create_group, our Communicator::create_group) a creation is entered by its members
//         alone; creations that do not list their maker are passed over. Creations are simulated as blocking calls:
//         those that all their makers have reached are complete; who is left waits, and the report says for whom, and
//         round which cycle. The simulation is exact: which creations complete does not depend on timing.
// Cost    Linear in the ranks listed, apart from sorting lists that do not ascend.
// Kinds   Of errors: order (ranks make different groups at the same point), missing (a rank ends, and others wait for
//         it), cycle (ranks wait for each other), member_order (a list in another order on another rank), mode (ranks
//         call the group that they make together by different names: their communicators are crossed), repeated (a rank
//         twice in a list), empty, range (a rank outside the world), overlap (groups of a mode share ranks, and are not
//         the same group again), cover (a mode's groups leave ranks out, and the mode may not).
//         Of warnings: mode (a group that has a name on some ranks alone), absent (no group lists a rank), stranger (a
//         rank makes a group that does not list it, where others outside that group do not).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reference/groups/plan.hpp"

namespace plumbline::groups {

/// The largest rank that a log may name.
inline constexpr int kLargestRank = (1 << 22) - 1;

enum class CreationRule { all_ranks, members_only };

/// creations[rank] is what a rank made, in its order; a mode may be empty. Ranks that made nothing have an empty list.
struct CreationLog {
  std::vector<std::vector<Creation>> creations;
  [[nodiscard]] int world_size() const { return static_cast<int>(creations.size()); }
};

/// One line of a log, and where it stands, from 1.
struct LoggedCreation {
  std::size_t line = 0;
  int rank = 0;
  std::optional<std::int64_t> sequence;
  Creation creation;
};
/// Each rank's creations, in the order of its sequence numbers where it has any, else of its lines. The world is as
/// large as the largest LoggedCreation::rank demands, and at least `world_size`. Throws InvalidArgument, with the line,
/// where a rank has a sequence number twice, or some lines with one and others without.
[[nodiscard]] CreationLog in_order(std::vector<LoggedCreation> lines, int world_size);
/// Reads JSON Lines: {"rank": 0, "sequence": 0, "ranks": [0, 1], "mode": "DATA"}, a creation a line, in any order of
/// lines. `mode` is optional, and so is `sequence`, for all lines of a rank or none: then its lines are in its order.
/// Sequence numbers must differ within a rank; gaps count for nothing. Other fields and empty lines are passed over;
/// a field that appears twice in a line is an error.
/// Other fields are ignored, but for those that look like a misspelling of one of these.
/// The world is as large as the largest rank seen demands, or as `world_size`, from 1 on, says. Throws InvalidArgument
/// with the line's number and what is wrong.
[[nodiscard]] CreationLog parse_creation_log(std::string_view text, std::optional<int> world_size = {});
/// One such line, without its end.
[[nodiscard]] std::string creation_line(int rank, int sequence, const Creation& creation);

struct LintOptions {
  CreationRule rule = CreationRule::all_ranks;
  /// Modes that are not to cover the world (embeddings): no error of kind cover.
  std::set<std::string, std::less<>> partial_modes{};
};

enum class Severity { warning, error };
[[nodiscard]] std::string_view name_of(Severity severity);

struct Finding {
  Severity severity = Severity::error;
  std::string kind;
  int rank = 0;
  int sequence = -1;  // its creation's number, from 0; -1: of none in particular
  std::string message;
  bool operator==(const Finding&) const = default;
};

struct LintReport {
  std::vector<Finding> findings;  // the first difference of order first, then what follows from it
  /// Whether there is no error: warnings do not count.
  [[nodiscard]] bool valid() const;
};

[[nodiscard]] LintReport lint(const CreationLog& log, const LintOptions& options = {});

}  // namespace plumbline::groups
