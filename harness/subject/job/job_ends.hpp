// harness/subject/job/job_ends.hpp: what the ends of a job's ranks mean, and the words for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/subject/guarded_process.hpp"

namespace plumbline::subject {

/// By this exit status a program declares that it does not support what it was asked for, as Automake's tests do.
inline constexpr int kUnsupportedStatus = 77;
/// A shell's: it could not execute the command; it did not find it.
inline constexpr int kCannotExecute = 126, kNotFound = 127;

/// The number of the end that caused the others: the first, or of several at the same time one by a signal, from which
/// the rest suffered. Not by SIGABRT: who aborts has found an error, which may be the death of a peer.
[[nodiscard]] std::size_t cause_among(const std::vector<ProcessEnd>& failed);

/// How each rank ended; nothing of one that still ran when the job was over, and was ended.
using RankEnds = std::vector<std::optional<ProcessEnd>>;
/// Whether all ranks that ended by themselves declare the run unsupported.
[[nodiscard]] bool are_unsupported(const RankEnds& ends);
/// Whether the shell could start the program on no rank.
[[nodiscard]] bool are_absent(const RankEnds& ends);
/// Whether the program ended by itself on every rank, with the status of an error: not by a signal, nor as unsupported.
[[nodiscard]] bool are_errors(const RankEnds& ends);

/// "there is no file 'FILE.py'; " of the first word of a command that looks like a script and is no file here; empty
/// where there is none, or the command changes the directory or is not for this host's files alone.
[[nodiscard]] std::string missing_script(const std::string& command);

/// "rank 1 last wrote: words", "rank 1 wrote nothing".
[[nodiscard]] std::string written_words(const std::string& name, const std::string& wrote);

struct EndedRank {
  std::string name, words;  // "rank 1", "exited with status 3"
};
/// "; rank 1 exited with status 3", of each.
[[nodiscard]] std::string words_of(const std::vector<EndedRank>& ranks);

/// A rank that still ran when the time was up.
struct HungRank {
  std::string name = {};  // "rank 1"
  /// Its last tensor, "" for none. Nothing of a program that launches ranks itself.
  std::optional<std::string> recorded = std::nullopt;
  /// Where it stood, innermost first, "" where it gave no answer. Nothing of ranks that such a program launched.
  std::optional<std::string> frames = std::nullopt;
  std::string wrote = {};
};
/// "; rank 1 last recorded step0/grad/0.bias; rank 1 stood in reduce (a.py:4); rank 1 wrote nothing", of each.
[[nodiscard]] std::string words_of(const std::vector<HungRank>& ranks);

}  // namespace plumbline::subject
