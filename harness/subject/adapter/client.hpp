// harness/subject/adapter/client.hpp: the asking side of the adapter protocol.
//
// Model   AdapterClient runs a program and asks it over pipes; LocalAdapter asks a service in this process,
//         through the same lines of JSON. An error reply is an AdapterError, and the adapter goes on. An
//         adapter that breaks the protocol (it dies, hangs, writes something else, answers another id) is
//         ended and costs a RuntimeFailure with what it last wrote on standard error; the next question is
//         put to a fresh one.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/subject/adapter/process.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/check.hpp"
#include "reference/adapter/protocol.hpp"
#include "reference/adapter/service.hpp"

namespace plumbline::subject {

struct AdapterOptions {
  /// Of one question, hello included, as long as answer_by() was not called.
  std::chrono::milliseconds limit = std::chrono::minutes(2);  // frameworks take long to be imported on a busy machine
};

/// The end of a program in the middle of a question.
struct AdapterEnd {
  bool hung = false;  // it gave no answer in its time, and was ended; else it ended, or closed its output, by itself
  std::string why;    // the message of the error that the question had
};

/// What hello said.
struct AdapterIdentity {
  std::string name;
  std::string version;
  std::set<std::string> operations;
  /// The version that each means, empty where it does not say; nothing: it names no conventions.
  std::optional<std::map<std::string, std::string>> conventions;
  /// Those that it names, and what is assumed of others that it does not have whole; it has all values of any other.
  suite::OptionValues options = {};
  bool names_options = true;  // or says nothing of any

  [[nodiscard]] std::optional<std::set<std::string>> convention_names() const;
  /// As of suite::Adapter::claims().
  [[nodiscard]] nlohmann::json claims() const;
};

class AdapterClient final : public suite::Adapter {
 public:
  /// Starts `sh -c command` and says hello. Throws InvalidArgument for an empty command, and RuntimeFailure
  /// when the program does not start, speaks another protocol, or breaks this one.
  explicit AdapterClient(std::string command, AdapterOptions options = {});

  /// Throws AdapterError for an error reply, InvalidArgument for a question longer than a line may be,
  /// RuntimeFailure when the adapter broke the protocol, or did so in a hello before: then it is not started
  /// again.
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override;
  [[nodiscard]] const std::set<std::string>& operations() const override { return identity_.operations; }
  [[nodiscard]] std::optional<std::set<std::string>> conventions() const override {
    return identity_.convention_names();
  }
  [[nodiscard]] nlohmann::json claims() const override { return identity_.claims(); }
  void answer_by(std::chrono::steady_clock::time_point deadline) override { deadline_ = deadline; }
  [[nodiscard]] const AdapterIdentity& identity() const { return identity_; }
  /// The first end of its program since this was last called.
  [[nodiscard]] std::optional<AdapterEnd> take_end() { return std::exchange(end_, std::nullopt); }

 private:
  void start();
  nlohmann::json question(const std::string& op, const nlohmann::json& args);
  std::string exchange(const std::string& line, const std::string& op);
  void send_some(std::string_view& unsent);
  bool receive_some();
  void hear_errors();
  enum class Cause { words, silence, end };
  [[noreturn]] void give_up(const std::string& op, const std::string& why, Cause cause = Cause::words);

  std::string command_;
  AdapterOptions options_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  AdapterIdentity identity_;
  std::unique_ptr<PipedProcess> process_;
  adapter::LineBuffer lines_;
  std::string errors_;  // the end of what it wrote on standard error
  std::int64_t last_id_ = 0;
  std::string broken_hello_;  // why it is not started again
  std::optional<AdapterEnd> end_;
};

class LocalAdapter final : public suite::Adapter {
 public:
  explicit LocalAdapter(adapter::AdapterService service);
  nlohmann::json ask(const std::string& op, const nlohmann::json& args) override;
  [[nodiscard]] const std::set<std::string>& operations() const override { return identity_.operations; }
  [[nodiscard]] std::optional<std::set<std::string>> conventions() const override {
    return identity_.convention_names();
  }
  [[nodiscard]] nlohmann::json claims() const override { return identity_.claims(); }
  [[nodiscard]] const AdapterIdentity& identity() const { return identity_; }

 private:
  adapter::AdapterService service_;
  AdapterIdentity identity_;
  std::int64_t last_id_ = 0;
};

/// The adapter that a command names; "reference" is the one inside. Throws as AdapterClient's constructor, and
/// RuntimeFailure where the greeting names an operation, a convention, or an option or a value of an operation that
/// the suite does not know.
[[nodiscard]] std::unique_ptr<suite::Adapter> open_adapter(const std::string& command, AdapterOptions options = {});

}  // namespace plumbline::subject
