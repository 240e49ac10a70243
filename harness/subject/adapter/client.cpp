#include "harness/subject/adapter/client.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include "harness/subject/adapter/declared.hpp"
#include "harness/suite/eligibility.hpp"
#include "reference/adapter/arguments.hpp"
#include "reference/adapter/protocol.hpp"
#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::subject {
using adapter::Arguments, adapter::Document, adapter::LineBuffer;
using adapter::decode, adapter::describe, adapter::excerpt, adapter::printable, adapter::request_line;
using adapter::kAdapterProtocol, adapter::kErrorKinds, adapter::kLongestLine;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kErrorsKept = 500;
constexpr std::size_t kReplyShown = 200;
using Block = std::array<char, 1 << 16>;

// A line that the protocol does not allow here.
class BrokenProtocol : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

Document reply_in(const std::string& line) {
  try {
    return decode(line);
  } catch (const InvalidArgument& error) {
    throw BrokenProtocol(fmt::format("wrote a line that is no reply ({}): {}; logs belong on standard error",
                                     error.what(), excerpt(line, kReplyShown)));
  }
}

// The result in the reply to question `id`. Throws AdapterError, BrokenProtocol.
json read_reply(const std::string& line, std::int64_t id, const std::string& op) {
  Document document = reply_in(line);
  json& reply = *document;
  if (!reply.is_object() || !reply.contains("id") || reply["id"] != id)
    throw BrokenProtocol(fmt::format("wrote a line that is no reply to id {}: {}", id, excerpt(line, kReplyShown)));
  if (reply.contains("result") == reply.contains("error"))
    throw BrokenProtocol(fmt::format("wrote a reply without one of result and error: {}", excerpt(line, kReplyShown)));
  if (reply.contains("result")) return std::move(reply["result"]);
  const json& error = reply["error"];
  const bool is_complete = error.is_object() && error.contains("kind") && error.contains("message") &&
                           error["message"].is_string() && error["kind"].is_string() &&
                           std::ranges::count(kErrorKinds, error["kind"].get_ref<const std::string&>()) == 1;
  if (!is_complete)
    throw BrokenProtocol(fmt::format("wrote an error without a message and one of the kinds {}: {}",
                                     fmt::join(kErrorKinds, ", "), excerpt(line, kReplyShown)));
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : error.items())
    if (name != "kind" && name != "message") fields[name] = value.is_string() ? value.get<std::string>() : value.dump();
  throw suite::AdapterError(op, error["kind"], error["message"], std::move(fields));
}

json hello_arguments() { return {{"protocol", kAdapterProtocol}}; }

// {"torch": "2.13"}, or a list of names.
std::optional<std::map<std::string, std::string>> conventions_in(const Arguments& fields) {
  if (!fields.has("conventions")) return std::nullopt;
  const auto given = fields.get<json>("conventions");
  if (!given.is_array() && !given.is_object())
    fields.refuse(fmt::format(
        R"(conventions must be an object with the version that each means, {{"torch": "2.13"}}, or a list, got {})",
        describe(given)));
  if (given.is_object()) return fields.get<std::map<std::string, std::string>>("conventions");
  std::map<std::string, std::string> named;
  for (const auto& name : fields.get<std::vector<std::string>>("conventions")) named.emplace(name, "");
  return named;
}

// {"schedules.generate": {"schedule": ["ScheduleGPipe"]}}
suite::OptionValues options_in(const Arguments& fields, const std::vector<std::string>& operations) {
  suite::OptionValues options;
  const auto& table = operation_table().operations();
  for (const std::string& operation : operations)
    if (const auto entry = table.find(operation); entry != table.end())
      if (auto assumed = entry->second.row.assumed_options(); !assumed.empty()) options[operation] = std::move(assumed);
  using ByArgument = std::map<std::string, std::vector<std::string>>;
  for (const auto& [operation, arguments] : fields.get<std::map<std::string, ByArgument>>("options", {})) {
    auto& named = options[operation];
    for (const auto& [argument, values] : arguments) named[argument] = {values.begin(), values.end()};
  }
  return options;
}

using Names = std::set<std::string>;

[[noreturn]] void refuse_name(const std::string& what, const std::string& name, const Names& known) {
  throw InvalidArgument(fmt::format("hello: there is no {} '{}'{}", what, printable(name),
                                    did_you_mean(name, {known.begin(), known.end()})));
}

// One that no check asks: the adapter's own.
bool is_private(const std::string& operation) { return operation.starts_with("x."); }

// What nobody knows would be skipped without a word, or taken for claimed.
void require_known(const AdapterIdentity& identity) {
  Names operations, conventions;
  for (const auto& [name, entry] : operation_table().operations()) {
    operations.insert(name);
    conventions.insert(entry.row.conventions.begin(), entry.row.conventions.end());
  }
  const auto require_operation = [&](const std::string& name) {
    if (!operations.contains(name) && !is_private(name)) refuse_name("operation", name, operations);
  };
  for (const std::string& name : identity.operations) require_operation(name);
  for (const std::string& name : identity.convention_names().value_or(Names()))
    if (!conventions.contains(name)) refuse_name("convention", name, conventions);
  for (const auto& [operation, arguments] : identity.options) {
    require_operation(operation);
    if (is_private(operation)) continue;
    const auto known = operation_table().row(operation).options();
    Names options;
    for (const auto& [argument, values] : known) options.insert(argument);
    for (const auto& [argument, values] : arguments) {
      if (!known.contains(argument)) refuse_name("option of " + operation, argument, options);
      for (const std::string& value : values)
        if (!suite::claims_value(known.at(argument), value))
          refuse_name(fmt::format("{} of {}", argument, operation), value, known.at(argument));
    }
  }
}

// A field that is nearly one that the greeting lacks; others say what they like.
void require_spelling(const json& result) {
  const Names known{"protocol", "name", "version", "ops", "conventions", "options"};
  std::vector<std::string> lacking;
  std::ranges::copy_if(known, std::back_inserter(lacking),
                       [&](const std::string& field) { return !result.contains(field); });
  for (const auto& [field, value] : result.items())
    if (!known.contains(field) && !did_you_mean(field, lacking).empty()) refuse_name("field", field, known);
}

AdapterIdentity read_hello(const json& result) {
  const Arguments fields("hello", result);
  if (const auto protocol = fields.get<std::int64_t>("protocol"); protocol != kAdapterProtocol)
    fields.refuse(fmt::format("protocol must be {}, got {}", kAdapterProtocol, protocol));
  const auto operations = fields.get<std::vector<std::string>>("ops");
  AdapterIdentity identity{.name = fields.get<std::string>("name"),
                           .version = fields.get<std::string>("version"),
                           .operations = {operations.begin(), operations.end()},
                           .conventions = conventions_in(fields),
                           .options = options_in(fields, operations),
                           .names_options = fields.has("options")};
  require_spelling(result);
  return identity;
}

// Writing to a program that is gone raises SIGPIPE in this thread; while this lives it is an error of write()
// only.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now{};
    if (!::sigismember(&before_, SIGPIPE)) ::sigtimedwait(&sigpipe_, nullptr, &now);  // takes back a pending one
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
};

// What read() says: bytes, or the end of the pipe, or nothing for now.
struct Received {
  std::string_view bytes;
  bool is_end = false;
};

Received receive(const Descriptor& from, Block& block) {
  const ssize_t count = ::read(from.get(), block.data(), block.size());
  if (count < 0) return {.bytes = {}, .is_end = errno != EAGAIN && errno != EINTR};
  return {.bytes = {block.data(), static_cast<std::size_t>(count)}, .is_end = count == 0};
}

// The last words of a log, on one line.
std::string last_words(std::string_view log) {
  while (log.ends_with('\n')) log.remove_suffix(1);
  std::string words;
  for (const char c : log) c == '\n' ? words += " | " : words += c;
  return printable(words);
}

}  // namespace

std::optional<std::set<std::string>> AdapterIdentity::convention_names() const {
  if (!conventions) return std::nullopt;
  std::set<std::string> names;
  for (const auto& [convention, means] : *conventions) names.insert(convention);
  return names;
}

json AdapterIdentity::claims() const {
  json claims{{"name", name},
              {"version", version},
              {"operations", operations},
              {"options", options},
              {"names_options", names_options}};
  if (conventions) claims["conventions"] = *conventions;
  return claims;
}

AdapterClient::AdapterClient(std::string command, AdapterOptions options)
    : command_(std::move(command)), options_(options), lines_(kLongestLine) {
  if (command_.find_first_not_of(" \t\n") == std::string::npos)
    throw InvalidArgument(
        "the adapter's command is empty; it must be a shell command that speaks the adapter protocol");
  start();
}

void AdapterClient::start() {
  if (!broken_hello_.empty()) {
    if (!end_) end_ = AdapterEnd{.why = broken_hello_};
    throw RuntimeFailure(broken_hello_);
  }
  process_ = std::make_unique<PipedProcess>(command_);
  lines_ = LineBuffer(kLongestLine);
  errors_.clear();
  try {
    try {
      identity_ = read_hello(question("hello", hello_arguments()));
    } catch (const InvalidArgument& error) {
      give_up("hello", fmt::format("answered what is no greeting ({})", error.what()));
    } catch (const suite::AdapterError& error) {
      give_up("hello", fmt::format("refused ({}: {})", error.kind(), error.message()));
    }
  } catch (const RuntimeFailure& error) {
    broken_hello_ = error.what();
    throw;
  }
}

json AdapterClient::ask(const std::string& op, const json& args) {
  if (process_ == nullptr) start();
  return question(op, args);
}

json AdapterClient::question(const std::string& op, const json& args) {
  const std::int64_t id = ++last_id_;
  const std::string reply = exchange(request_line(id, op, args) + "\n", op);
  try {
    return read_reply(reply, id, op);
  } catch (const BrokenProtocol& error) {
    give_up(op, error.what());
  }
}

// Sends the line while it takes in what comes, for an adapter may write before it has read all.
std::string AdapterClient::exchange(const std::string& line, const std::string& op) {
  const auto begin = std::chrono::steady_clock::now();
  const auto deadline = std::max(begin, deadline_.value_or(begin + options_.limit));
  std::string_view unsent = line;
  for (;;) {
    if (auto reply = lines_.take()) return std::move(reply->text);
    if (lines_.is_dropping()) give_up(op, fmt::format("wrote a line of more than {} bytes", kLongestLine));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= 0ms)
      give_up(op, fmt::format("gave no answer in {:.1f} s", std::chrono::duration<double>(deadline - begin).count()),
              Cause::silence);
    std::array<pollfd, 3> ends{pollfd{process_->output.get(), POLLIN, 0}, pollfd{process_->errors.get(), POLLIN, 0},
                               pollfd{unsent.empty() ? -1 : process_->input.get(), POLLOUT, 0}};
    ::poll(ends.data(), ends.size(), static_cast<int>(left.count()));
    if (ends[2].revents != 0) send_some(unsent);
    if (ends[1].revents != 0) hear_errors();
    if (ends[0].revents != 0 && !receive_some()) give_up(op, "closed its output", Cause::end);
  }
}

void AdapterClient::send_some(std::string_view& unsent) {
  const WithoutSigpipe guard;
  const ssize_t count = ::write(process_->input.get(), unsent.data(), unsent.size());
  if (count >= 0) return unsent.remove_prefix(static_cast<std::size_t>(count));
  if (errno != EAGAIN && errno != EINTR) unsent = {};  // it reads no more; its output says whether it lives
}

bool AdapterClient::receive_some() {
  Block block;
  const Received received = receive(process_->output, block);
  lines_.append(received.bytes);
  return !received.is_end;
}

void AdapterClient::hear_errors() {
  Block block;
  const Received received = receive(process_->errors, block);
  errors_ += received.bytes;
  if (errors_.size() > kErrorsKept) errors_.erase(0, errors_.size() - kErrorsKept);
  if (received.is_end) process_->errors.reset();
}

void AdapterClient::give_up(const std::string& op, const std::string& why, Cause cause) {
  std::string message = fmt::format("adapter '{}': {}: it {}", command_, op, why);
  if (const auto end = process_->ended(100ms)) message += fmt::format("; it {}", *end);
  if (process_->errors.get() >= 0) hear_errors();
  if (!errors_.empty()) message += fmt::format("; on standard error it last wrote: {}", last_words(errors_));
  process_->grace = 50ms;  // it has forfeited our patience
  process_ = nullptr;
  if (cause != Cause::words && !end_) end_ = AdapterEnd{.hung = cause == Cause::silence, .why = message};
  throw RuntimeFailure(message);
}

LocalAdapter::LocalAdapter(adapter::AdapterService service) : service_(std::move(service)) {
  identity_ = read_hello(ask("hello", hello_arguments()));
}

json LocalAdapter::ask(const std::string& op, const json& args) {
  const std::int64_t id = ++last_id_;
  return read_reply(service_.handle(request_line(id, op, args)), id, op);
}

std::unique_ptr<suite::Adapter> open_adapter(const std::string& command, AdapterOptions options) {
  if (command == "reference") return std::make_unique<LocalAdapter>(adapter::reference_service());
  auto client = std::make_unique<AdapterClient>(command, options);
  try {
    require_known(client->identity());
  } catch (const InvalidArgument& error) {
    throw RuntimeFailure(fmt::format("adapter '{}': {}", command, error.what()));
  }
  return client;
}

}  // namespace plumbline::subject
