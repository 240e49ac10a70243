// reference/topology/rank_generator.hpp: Megatron-LM's rank orders, and grids with several views of one span of ranks.
//
// Model   An order "tp-cp-ep-dp-pp" names kinds of parallelism, the first fastest: a Topology whose first axis is
//         fastest. The groups of a token are those along its names, merged where there are several ("tp-dp", in any
//         order). Experts have an order of their own over the same ranks: a second generator with the same pipelines.
// Cost    As a Topology: nothing is enumerated before it is used.
// Sources Megatron-LM core/parallel_state.py (RankGenerator) and core/hyper_comm_grid.py, release 0.19.2.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/topology/topology.hpp"

namespace plumbline::topology {

/// Whose rule completes an order. Both put names that are missing after the given ones: tp, pp, dp, ep, cp,
/// gtp_remat. Megatron-LM looks for a name in the text of the order, so that "gtp_remat" counts as "tp" too: there a tp
/// of size 1 is then left out, and asking for its groups is an error. It takes an empty order for one that names
/// nothing it knows, and no notice of an offset below 0. Ours goes by whole names, in letters of either size; an empty
/// order names none, an offset below 0 is an error.
enum class OrderRule { plumbline, megatron };

/// An order with a place for the weight axis: gtp_remat after the name `neighbour`, else after tp, else first; as it is
/// where it names gtp_remat already. Letters count as they are, as in the source, which makes them small only later:
/// "TP-DP" becomes "gtp_remat-TP-DP".
[[nodiscard]] std::string with_weight_axis(std::string_view order, std::string_view neighbour);

class RankGenerator {
 public:
  /// `sizes` of tp, pp, dp, ep, cp, gtp_remat; those that are left out are 1. Names of the order may be in capitals.
  /// Throws InvalidArgument for a size below 1, a name larger than 1 that the order lacks, a name twice, and for ep and
  /// cp both larger than 1 (cp belongs to the dense generator, ep to the experts'); NotFound for an unknown name.
  RankGenerator(const std::map<std::string, int>& sizes, std::string_view order, int rank_offset = 0,
                OrderRule rule = OrderRule::plumbline);

  /// Small letters, missing names appended: "tp-cp-ep-dp-pp-gtp_remat".
  [[nodiscard]] std::string order() const;
  /// Sizes in that order.
  [[nodiscard]] std::vector<int> ordered_size() const;
  [[nodiscard]] int world_size() const { return topology_.world_size(); }
  /// The size of a name; 1 for one that the order lacks.
  [[nodiscard]] int size(std::string_view name) const;
  [[nodiscard]] const Topology& topology() const { return topology_; }

  /// The groups of a token, "tp" or "tp-dp": by their first ranks, ranks ascending. Naming one twice changes nothing.
  /// Throws NotFound.
  [[nodiscard]] GroupList groups(std::string_view token) const;

 private:
  friend RankGenerator expert_generator(const RankGenerator& dense, int tp, int ep, int gtp_remat,
                                        std::optional<std::string_view> order);
  std::string given_order_;  // before it was completed
  OrderRule rule_;
  Topology topology_;
};

/// The experts' generator over the ranks of a dense one: same pipelines, no cp, data-parallel size from the division.
/// `order` is the one that the dense generator was given, unless the experts have their own (their weight axis lies
/// elsewhere). Throws what the constructor throws, and InvalidArgument when the sizes do not divide the world, when
/// pipelines would differ, and, as the source does, when pp is not last, in small letters, larger than 1, and the
/// data-parallel sizes differ.
[[nodiscard]] RankGenerator expert_generator(const RankGenerator& dense, int tp, int ep, int gtp_remat = 1,
                                             std::optional<std::string_view> order = std::nullopt);

/// Named dimensions over a span of ranks, and other factorisations ("views") of that same span. A view has the same
/// number of ranks; dimensions that it shares with the base must be in both and must enumerate the same groups in the
/// same order, each alone and all of them together. Then a group of shared dimensions alone is the base's (made once,
/// freed once), any other group is the view's own.
class HyperCommGrid {
 public:
  static constexpr std::string_view kBase = "base";

  /// The first dimension is fastest. Throws InvalidArgument for what no Topology takes and for a grid beyond the world.
  HyperCommGrid(std::span<const std::string> names, std::span<const int> shape, int world_size, int rank_offset = 0);

  /// Throws InvalidArgument for a name that exists already, another number of ranks, what no Topology takes, and shared
  /// dimensions that are twice there or not the same groups in both; NotFound for one that is missing in one of the
  /// two.
  void register_view(const std::string& view, std::span<const std::string> names, std::span<const int> shape,
                     const std::vector<std::string>& shared = {});

  /// Throws NotFound for an unknown view.
  [[nodiscard]] const Topology& topology(std::string_view view = kBase) const;
  /// The groups along some dimensions: by first ranks, ranks ascending. Throws NotFound, InvalidArgument for a
  /// dimension twice.
  [[nodiscard]] GroupList groups(std::span<const std::string> names, std::string_view view = kBase) const;
  /// The view whose groups these dimensions' are: the base's where all are shared. Throws NotFound for an unknown view.
  [[nodiscard]] std::string owner(std::span<const std::string> names, std::string_view view = kBase) const;

 private:
  struct View {
    Topology topology;
    std::vector<std::string> shared;
  };
  [[nodiscard]] const View& view(std::string_view name) const;

  std::map<std::string, View, std::less<>> views_;
};

}  // namespace plumbline::topology
