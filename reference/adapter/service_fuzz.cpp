// Requests that nobody would make: each line gets one reply, of the protocol's form, and nothing ends the process.
//
// Inputs are changed as JSON: a number, a word, a list or an object somewhere in a request becomes another, so that
// most of them are still read by an operation. What a request may cost is the operation's to bound: a list that would
// need more than kMost bytes at once finds no memory, as it might on any machine.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>

#include "reference/adapter/protocol.hpp"
#include "reference/adapter/reference_service.hpp"

namespace {

constexpr std::size_t kMost = std::size_t{256} << 20;

}  // namespace

void* operator new(std::size_t bytes) {
  if (bytes > kMost) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// The sanitizer's other forms of new meet our delete.
extern "C" const char* __asan_default_options() { return "alloc_dealloc_mismatch=0"; }

namespace plumbline::adapter {
namespace {

using nlohmann::json;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

void check_reply(const std::string& line) {
  require(line.find('\n') == std::string::npos, "a reply is one line");
  const json reply = json::parse(line, nullptr, false);
  require(reply.is_object() && reply.contains("id") && reply.size() == 2, "a reply has an id and one thing more");
  if (reply.contains("result")) return;
  require(reply.contains("error") && reply["error"].is_object(), "a reply has a result or an error");
  const json& error = reply["error"];
  require(
      error.contains("kind") && error["kind"].is_string() && error.contains("message") && error["message"].is_string(),
      "an error has kind and message");
  require(std::ranges::count(kErrorKinds, error["kind"].get<std::string>()) == 1, "the kind is the protocol's");
  const std::string message = error["message"].get<std::string>();
  require(!message.empty() && message.size() < 4000, "the message is one that can be read");
  require(std::ranges::none_of(message, [](char c) { return c == '\n' || c == '\r'; }), "the message is one line");
}

// ---- other requests ----

// Any value inside another.
json& somewhere(json& value, std::mt19937& random) {
  json* at = &value;
  while (at->is_structured() && !at->empty() && random() % 4 != 0)
    at = &*std::next(at->begin(), static_cast<std::ptrdiff_t>(random() % at->size()));
  return *at;
}

json another_number(const json& old, std::mt19937& random) {
  static constexpr std::int64_t kEdges[] = {0,  -1, 1,    2,    3,     7,          8,          64,        255,
                                            -2, 16, 1000, 4096, 65536, 2147483647, 4294967296, INT64_MAX, INT64_MIN};
  switch (random() % 4) {
    case 0:
      return kEdges[random() % std::size(kEdges)];
    case 1:
      return static_cast<double>(random()) / 1e9 - 2;
    case 2:
      return old.is_number_integer() ? json(static_cast<std::int64_t>(
                                           static_cast<std::uint64_t>(old.get<std::int64_t>()) + random() % 3 - 1))
                                     : json(old.get<double>() * -0.5);
    default:
      return static_cast<std::int64_t>(random() % 12);
  }
}

json another_value(std::mt19937& random) {
  switch (random() % 7) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return another_number(0, random);
    case 3:
      return "nan";
    case 4:
      return "";
    case 5:
      return json::array();
    default:
      return json::object();
  }
}

void change(json& value, std::mt19937& random) {
  if (random() % 10 == 0) {
    value = another_value(random);
  } else if (value.is_number()) {
    value = another_number(value, random);
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (value.is_array() && !value.empty()) {
    const std::size_t at = random() % value.size();
    const json one = value[at];
    if (random() % 2 == 0)
      value.erase(at);
    else
      value.insert(value.begin() + static_cast<std::ptrdiff_t>(random() % value.size()), one);
  } else if (value.is_object() && !value.empty()) {
    const auto at = std::next(value.begin(), static_cast<std::ptrdiff_t>(random() % value.size()));
    if (random() % 3 == 0)
      value["x"] = *at;
    else
      value.erase(at);
  } else {
    value = another_value(random);
  }
}

}  // namespace
}  // namespace plumbline::adapter

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline::adapter;
  static const AdapterService service = reference_service();
  check_reply(service.handle({reinterpret_cast<const char*>(data), size}));
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace plumbline::adapter;
  std::mt19937 random(seed);
  json request = json::parse(data, data + size, nullptr, false);
  if (request.is_discarded() || random() % 20 == 0) return LLVMFuzzerMutate(data, size, room);
  json& changed = request.contains("args") && random() % 10 != 0 ? request["args"] : request;
  for (unsigned times = 1 + random() % 3; times > 0; --times) change(somewhere(changed, random), random);
  const std::string text = request.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > room) return LLVMFuzzerMutate(data, size, room);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
