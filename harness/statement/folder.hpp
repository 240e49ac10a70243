// harness/statement/folder.hpp: the folder that a vendor hands over, made and verified.
//
// Model   The records, SUBJECT.toml and a signature are what somebody made; every other file follows from them. Who
//         verifies makes those files again and compares them, so that no edit of any of them goes unseen. The records
//         themselves are held to their digests, to the suite's plan and to their own totals. Who forges a record with
//         all that follows from it is found only by repeating the run, or by a signature that is not the vendor's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/statement/statement.hpp"

namespace plumbline::statement {

/// Writes the folder, whole or not at all: SUBJECT.toml, run.jsonl (of shards run-1.jsonl, …), environment.json,
/// capabilities.json, waivers.json, junit.xml, REPRODUCE.sh, STATEMENT.md, STATEMENT.html, statement.json (an in-toto
/// statement over all of these), SHA256SUMS, and with a key statement.json.sig. `records` are the shards' files, in the
/// order of `shards`. Throws InvalidArgument where the folder is there and not empty, RuntimeFailure.
void write_folder(const std::filesystem::path& folder, const suite::Suite& suite, const std::string& subject_toml,
                  const std::vector<run::NamedRun>& shards, const std::vector<std::filesystem::path>& records,
                  const std::filesystem::path& key);

struct Verified {
  std::vector<std::string> problems;  // a line each; empty: the statement holds
  std::string claim;                  // where it holds
  std::string note;                   // what a reader should know beside it: Statement::changes()
  std::chrono::sys_days valid_until;
  std::string signer;  // empty: unsigned, or by nobody whose name is known
  bool is_signed = false;
};
/// `signers` may be empty; a signature of one of them is demanded else. Throws InvalidArgument for what is no folder.
[[nodiscard]] Verified verify_folder(const std::filesystem::path& folder, const suite::Suite& suite,
                                     std::string_view suite_version, const std::filesystem::path& signers,
                                     std::chrono::sys_days today);

}  // namespace plumbline::statement
