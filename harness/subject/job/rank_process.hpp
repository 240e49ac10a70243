// harness/subject/job/rank_process.hpp: one process of a job, and the end of what it wrote.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/subject/guarded_process.hpp"

namespace plumbline::subject {

class RankProcess {
 public:
  /// Starts it; `name` is what messages call it, `input` its standard input, if any. Throws RuntimeFailure.
  RankProcess(std::string name, const std::string& command, std::vector<std::string> environment, int input = -1);
  /// One that `start` makes, which is given the descriptor for its output.
  RankProcess(std::string name, const std::function<std::unique_ptr<Process>(int output)>& start);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool runs() const { return !end_; }
  /// How it ended; only once it does not run any more.
  [[nodiscard]] const ProcessEnd& end() const { return end_.value(); }
  /// "exited with status 127 (the shell did not find the command)".
  [[nodiscard]] std::string end_words() const;
  void signal(int number) const { process_->signal(number); }
  /// It and all that it has started.
  [[nodiscard]] std::vector<pid_t> processes() const { return process_->processes(); }

  /// Readable when it has written, -1 when it never will; readable when it has ended, -1 once that is known.
  [[nodiscard]] int output() const { return output_.reading.get(); }
  [[nodiscard]] int news() const { return end_ ? -1 : process_->news(); }
  /// Takes in what it has written, without waiting.
  void hear();
  /// Notices its end, and takes in its last words.
  void notice_end();

  /// The last lines, on one line for a message; empty when it wrote nothing.
  [[nodiscard]] std::string last_words() const;
  /// The last few thousand bytes, as they came.
  [[nodiscard]] const std::string& tail() const { return tail_; }

  /// What it writes from now on is an answer to the question where it stands, and does not belong to its last words.
  void begin_answer() { answers_ = true; }
  [[nodiscard]] const std::string& answer() const { return answer_; }
  void set_answer(std::string text) { answer_ = std::move(text); }

 private:
  std::string name_;
  Pipe output_;
  std::unique_ptr<Process> process_;
  std::optional<ProcessEnd> end_;
  std::string tail_;
  bool answers_ = false;
  std::string answer_;
};

}  // namespace plumbline::subject
