// harness/suite/mutant.hpp: a subject that is wrong on purpose in one known way, to prove that the checks can fail.
//
// Model   A mutant names the requirement that it violates, a case in which it must show, and one in which it cannot. It
//         changes what a subject does behind one door: a communicator around the backend's; a runtime around that of
//         its devices; the source of the reference, in a woven build (harness/weave); a job's training record after it
//         was written; an adapter's answers, which counts only for requirements about answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/door.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::job {
struct RunSpec;  // reference/record/run_spec.hpp
}

namespace plumbline::suite {

class Adapter;  // harness/suite/check.hpp

/// A communicator decorator.
using Wrap = std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)>;
/// A runtime of devices around another, by which the backend's calls are made.
using WrapRuntime = std::function<std::shared_ptr<device::Runtime>(std::shared_ptr<device::Runtime>)>;
/// Changes the records in a folder, of the job that was given this specification.
using ChangeRecord = std::function<void(const job::RunSpec& spec, const std::filesystem::path& folder)>;
/// Makes another reply, {"result": …} or {"error": {"kind", "message"}}, of an adapter's.
using RewriteAnswer =
    std::function<nlohmann::json(const std::string& op, const nlohmann::json& args, nlohmann::json reply)>;

/// Makes the RewriteAnswer of one case, which may remember answers, and may ask `inner` again, which outlives it.
using MakeRewrite = std::function<RewriteAnswer(Adapter& inner, std::uint64_t seed)>;

/// A change of the reference's source: text that stands once in the file, or in that function of it, in the body of a
/// function.
struct SourceEdit {
  std::string file;      // "reference/scaler/loss_scale.cpp"
  std::string function;  // may be empty
  std::string find;
  std::string replace;  // may be empty
};
/// All that a mutant changes; a woven build has it (harness/weave), no other.
struct Edits {
  std::vector<SourceEdit> list;
  Door door = Door::backend;  // of the check that it shows in; Suite::mutants() sets it
};

/// What a sanitizer that the program is built with makes of a fault.
enum class Sanitized {
  shows,     // no more than there is
  race,      // it is a data race: the thread sanitizer ends the process at it, and is right
  measured,  // it shows in figures of malloc's, which a sanitizer's allocator does not keep
};

struct Mutant {
  std::string name;       // "col.drop_last_element"
  std::string violates;   // requirement id
  std::string what;       // one line
  std::string source;     // of the fault: a row of the bug catalogue, or why it is likely
  std::string shows;      // a case id that must fail
  std::string hides;      // a case id that must pass, or empty
  std::string why_hides;  // the reason, also where nothing hides it
  std::variant<Wrap, ChangeRecord, RewriteAnswer, MakeRewrite, WrapRuntime, Edits> change;
  std::string shows_arm = "plain";  // of the case
  std::string hides_arm = "plain";
  Sanitized sanitized = Sanitized::shows;
};

/// What it breaks: the option of the command line that names its subject.
[[nodiscard]] Door door_of(const Mutant& mutant);

/// The mutants of a mutants.toml, in its order. Throws InvalidArgument: "FILE:LINE:COLUMN: why".
[[nodiscard]] std::vector<Mutant> mutants_of_toml(std::string_view text, std::string_view origin);

}  // namespace plumbline::suite
