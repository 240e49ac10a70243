#include "harness/statement/signature.hpp"

#include <csignal>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <poll.h>

#include "harness/launch/process.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::statement {
namespace {

namespace fs = std::filesystem;

// Ours alone: a signature for another purpose is none of a statement.
constexpr const char* kPurpose = "plumbline-statement";

struct Ended {
  bool well = false;
  std::string output;
};

// Runs a program to its end. Throws RuntimeFailure where it is not here, or does not end.
Ended run_tool(const std::string& tool, const std::string& package, std::vector<std::string> arguments) {
  if (!launch::find_program(tool)) throw RuntimeFailure(fmt::format("{} is not in PATH; install {}", tool, package));
  constexpr int kLimitMilliseconds = 60000;
  const launch::ScratchFolder scratch;
  const fs::path output = scratch.path() / "output";
  launch::Child child(
      {.arguments = std::move(arguments), .environment = {{"LC_ALL", "C"}}, .output = output, .death_signal = SIGKILL});
  pollfd ends{.fd = child.pidfd(), .events = POLLIN, .revents = 0};
  if (::poll(&ends, 1, kLimitMilliseconds) <= 0)
    throw RuntimeFailure(fmt::format("{} has not ended after {} s", tool, kLimitMilliseconds / 1000));
  const auto end = child.ended();
  std::ifstream stream(output);
  std::ostringstream text;
  text << stream.rdbuf();
  std::string words = text.str();
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return {end && end->ends_with("status 0"), words};
}

Ended ssh_keygen(std::vector<std::string> arguments) {
  return run_tool("ssh-keygen", "openssh-client", std::move(arguments));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::map<std::string, std::string> digests_of(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> arguments{"sha256sum", "--"};
  for (const std::string& name : names) arguments.push_back((folder / name).string());
  std::map<std::string, std::string> digests;
  if (names.empty()) return digests;
  const Ended ended = run_tool("sha256sum", "coreutils", arguments);
  if (!ended.well) throw RuntimeFailure(first_line(ended.output));
  constexpr std::size_t kDigits = 64;
  std::istringstream lines(ended.output);
  std::string line;
  // A backslash comes before the digest of a file whose name has one; names of ours have none, folders may.
  for (const std::string& name : names) {
    if (!std::getline(lines, line)) throw RuntimeFailure("sha256sum: " + first_line(ended.output));
    digests[name] = line.substr(line.starts_with('\\') ? 1 : 0, kDigits);
  }
  return digests;
}

void sign(const fs::path& file, const fs::path& key) {
  const Ended ended = ssh_keygen({"ssh-keygen", "-Y", "sign", "-f", key.string(), "-n", kPurpose, file.string()});
  if (!ended.well)
    throw InvalidArgument(
        fmt::format("--key '{}': {}; ssh-keygen -t ed25519 makes one, and ssh-agent holds one that has a passphrase",
                    key.string(), first_line(ended.output)));
}

Signer signer_of(const fs::path& file, const fs::path& signers) {
  const std::string signature = file.string() + ".sig";
  // The file is read from standard input.
  const auto with_input = [&](std::vector<std::string> arguments) {
    std::vector<std::string> all{"sh", "-c", "file=$1; shift; exec ssh-keygen \"$@\" <\"$file\"", "sh", file.string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return ssh_keygen(std::move(all));
  };
  if (signers.empty()) {
    const Ended ended = with_input({"-Y", "check-novalidate", "-n", kPurpose, "-s", signature});
    return {.problem = ended.well ? "" : "the signature is not of this file: " + first_line(ended.output)};
  }
  const Ended found = ssh_keygen({"ssh-keygen", "-Y", "find-principals", "-s", signature, "-f", signers.string()});
  if (!found.well) return {.problem = fmt::format("'{}' has nobody with the key of the signature", signers.string())};
  const std::string name = first_line(found.output);
  const Ended ended = with_input({"-Y", "verify", "-f", signers.string(), "-I", name, "-n", kPurpose, "-s", signature});
  if (!ended.well) return {.problem = fmt::format("the signature of {} is not of this file", name)};
  return {.name = name};
}

}  // namespace plumbline::statement
