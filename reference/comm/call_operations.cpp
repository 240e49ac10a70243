// comm.calls: calls of a group of ranks on memory that the question gives, what each rank was told, and what it left.
#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "reference/adapter/operations.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::adapter {

using comm::Call;
using comm::DType;
using nlohmann::json;

namespace {

constexpr std::int64_t kMostCallers = 16;

// Part of a rank's memory, or of nowhere.
struct Window {
  bool somewhere = false;
  std::int64_t first = 0;  // element
  std::int64_t count = 0;
  DType dtype = DType::f32;
};

// One call, the same on all ranks but for the lists of a new group.
struct Asked {
  std::optional<std::vector<std::vector<int>>> groups;  // create_group, a list a rank
  Call call;
  Window in, out;
};

struct Script {
  int world_size = 0;
  DType dtype = DType::f32;
  std::vector<std::vector<double>> memory;  // of each rank
  std::vector<Asked> calls;
};

DType read_dtype(const Arguments& arguments, DType otherwise) {
  return arguments.choice<DType>(
      "dtype", {{"float32", DType::f32}, {"float64", DType::f64}, {"int32", DType::i32}, {"int64", DType::i64}},
      otherwise);
}

Window read_window(const Arguments& call, std::string_view name, const Script& script) {
  const auto given = call.find<Arguments>(name);
  if (!given) return {};
  Window window{.somewhere = given->has("first"),
                .first = given->get<std::int64_t>("first", 0),
                .count = given->get<std::int64_t>("count"),
                .dtype = read_dtype(*given, script.dtype)};
  const auto elements = static_cast<std::int64_t>(script.memory.front().size());
  // What is read or written, should the call be made, is this memory and nothing else.
  if (size_of(window.dtype) > size_of(script.dtype))
    given->refuse("the dtype of a window may not be wider than the memory's");
  if (window.first < 0 || window.first > elements || window.count > elements - window.first)
    throw OutOfRange(fmt::format("comm.calls: {} has elements {} to {}, the memory has {}", name, window.first,
                                 window.first + window.count - 1, elements));
  return window;
}

comm::Operation read_operation(const Arguments& call) {
  const auto word = call.get<std::string>("operation");
  for (int i = 0; i < comm::kOperationCount; ++i)
    if (const auto operation = static_cast<comm::Operation>(i); name_of(operation) == word) return operation;
  call.refuse(fmt::format("no operation '{}'; they are create_group and those of reference/comm/call.hpp", word));
}

Asked read_call(const Arguments& call, const Script& script) {
  Asked asked;
  if (call.get<std::string>("operation") == "create_group") {
    asked.groups = call.get<std::vector<std::vector<int>>>("ranks");
    if (asked.groups->size() != static_cast<std::size_t>(script.world_size))
      call.refuse(fmt::format("ranks must have a list for each of the {} ranks", script.world_size));
    return asked;
  }
  using comm::ReduceOp;
  asked.call = {.operation = read_operation(call),
                .op = call.choice<ReduceOp>("op",
                                            {{"sum", ReduceOp::sum},
                                             {"product", ReduceOp::product},
                                             {"min", ReduceOp::min},
                                             {"max", ReduceOp::max},
                                             {"avg", ReduceOp::avg}},
                                            ReduceOp::sum),
                .root = call.get<int>("root", comm::kNoRoot),
                .tag = call.get<int>("tag", 0)};
  asked.in = read_window(call, "in", script);
  asked.out = read_window(call, "out", script);
  return asked;
}

Script read_script(const Arguments& arguments) {
  Script script{.world_size = static_cast<int>(arguments.integer_in("world_size", 1, kMostCallers)),
                .dtype = read_dtype(arguments, DType::f32),
                .memory = arguments.get<std::vector<std::vector<double>>>("memory"),
                .calls = {}};
  if (script.memory.size() != static_cast<std::size_t>(script.world_size))
    arguments.refuse(fmt::format("memory must have a list for each of the {} ranks", script.world_size));
  for (const auto& row : script.memory) {
    if (row.size() != script.memory.front().size()) arguments.refuse("memory must have as many elements on every rank");
    for (const double value : row)
      if (!is_floating(script.dtype) && !(std::trunc(value) == value && std::fabs(value) < 0x1p31))
        arguments.refuse(fmt::format("memory has {}; integers here are whole numbers of 32 bits", value));
  }
  for (const Arguments& call : arguments.get<std::vector<Arguments>>("calls"))
    script.calls.push_back(read_call(call, script));
  arguments.expect_no_others();
  return script;
}

// A rank's memory of Ts.
template <class T>
class Memory {
 public:
  explicit Memory(const std::vector<double>& values) : elements_(values.begin(), values.end()) {}
  [[nodiscard]] void* at(const Window& window) { return window.somewhere ? elements_.data() + window.first : nullptr; }
  [[nodiscard]] json values() const { return elements_; }

 private:
  std::vector<T> elements_;
};

// Makes one call as one rank; the kind of the error, or null.
template <class T>
json make(const Asked& asked, comm::Communicator& group, Memory<T>& memory) {
  try {
    if (asked.groups) {
      (void)group.create_group(asked.groups->at(static_cast<std::size_t>(group.rank())));
      return nullptr;
    }
    Call call = asked.call;
    call.in = {memory.at(asked.in), asked.in.count, asked.in.dtype};
    call.out = {memory.at(asked.out), asked.out.count, asked.out.dtype};
    group.run(call);
    return nullptr;
  } catch (const Error& error) {
    return error.kind();
  }
}

template <class T>
json play(const Script& script) {
  using ByRank = std::vector<json>;
  const ByRank nothing(static_cast<std::size_t>(script.world_size));
  std::vector<ByRank> errors(script.calls.size(), nothing), left(script.calls.size(), nothing);
  comm::run_ranks(script.world_size,
                  [&](comm::Communicator& group) {
                    const auto rank = static_cast<std::size_t>(group.rank());
                    Memory<T> memory(script.memory[rank]);
                    for (std::size_t i = 0; i < script.calls.size(); ++i) {
                      errors[i][rank] = make(script.calls[i], group, memory);
                      left[i][rank] = memory.values();
                    }
                  },
                  {.timeout = std::chrono::seconds(10)});
  json outcomes = json::array();
  for (std::size_t i = 0; i < script.calls.size(); ++i)
    outcomes.push_back({{"errors", std::move(errors[i])}, {"memory", std::move(left[i])}});
  return {{"calls", std::move(outcomes)}};
}

json calls(const Arguments& arguments) {
  const Script script = read_script(arguments);
  switch (script.dtype) {
    case DType::f64:
      return play<double>(script);
    case DType::i32:
      return play<std::int32_t>(script);
    case DType::i64:
      return play<std::int64_t>(script);
    default:
      return play<float>(script);
  }
}

}  // namespace

void add_call_operations(AdapterService& service) {
  const std::vector<ArgumentRow> window{
      {"first", "integer", "first element; null: a null pointer", kOptional},
      {"count", "integer", "elements, at least 0 in a legal call"},
      {"dtype", "text", "element type: the memory's, or another that is no wider", kOptional}};
  service.add(
      {"comm.calls",
       "makes a sequence of calls on one group of ranks, and reports errors and memory after each",
       {"plumbline"},
       {{"world_size", "integer", "number of ranks, 1 to 16"},
        {"dtype", "text", "element type of the memory", R"("float32")", {"float32", "float64", "int32", "int64"}},
        {"memory", "list of list of number [world_size][elements]", "each rank's memory before the first call"},
        with_fields(
            {"calls", "list of object", "the calls, each made by all ranks"},
            {{"operation", "text", "all_reduce, …, as in reference/comm/call.hpp, or create_group"},
             {"ranks", "list of list of integer [world_size][members]",
              "of create_group: the group that each rank asks for", kOptional},
             {"op", "text", "sum, product, min, max or avg", R"("sum")"},
             {"root", "integer", "root rank; null: none", kOptional},
             {"tag", "integer", "message tag", "0"},
             with_fields({"in", "object", "input window of the memory; null: a null pointer and count 0", kOptional},
                         window),
             with_fields({"out", "object", "output window of the memory, likewise", kOptional}, window)})},
       {{"calls",
         "list of object",
         "the outcome of each call",
         {{"errors", "list of any [world_size]", "of each rank the kind of the error, or null"},
          {"memory", "list of list of number [world_size][elements]",
           "each rank's memory after the call; a rejected call leaves it as it was"}}}},
       R"({"world_size": 2, "memory": [[1, 2], [3, 4]],
           "calls": [{"operation": "all_reduce", "in": {"first": 0, "count": 2}, "out": {"first": 0, "count": 2}}]})",
       {{"invalid_argument",
         "memory does not have world_size lists of one length, an operation has another name, or a window's dtype is "
         "wider than the memory's"},
        {"out_of_range", "a window exceeds the memory"}}},
      calls);
}

}  // namespace plumbline::adapter
