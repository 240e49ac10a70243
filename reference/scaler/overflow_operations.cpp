// scaler.overflow: which ranks find Inf or NaN in their gradients, and which then report an overflow.
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/scaler/found_inf.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

using Gradients = std::vector<std::optional<std::vector<double>>>;

// Element by element: the sum of finite elements may overflow where none of them did.
bool overflows(const Gradients& gradients, comm::DType dtype) {
  return std::ranges::any_of(gradients, [&](const auto& gradient) {
    return gradient && !std::ranges::all_of(TypedValues(dtype, *gradient).values(),
                                            [](double value) { return std::isfinite(value); });
  });
}

std::vector<bool> reported(const std::string& over, const scaler::ModelGroups& groups, std::vector<bool> found) {
  using scaler::Deciding;
  if (over == "world") return std::vector<bool>(found.size(), std::ranges::find(found, true) != found.end());
  return skipping(over == "model" ? Deciding::model : Deciding::local, groups, std::move(found));
}

json ranks_with(const std::vector<bool>& flags) {
  json ranks = json::array();
  for (std::size_t rank = 0; rank < flags.size(); ++rank)
    if (flags[rank]) ranks.push_back(rank);
  return ranks;
}

json overflow(const Arguments& arguments) {
  constexpr int most = 1 << 16;
  const auto size = [&](const char* name) { return static_cast<int>(arguments.integer_in(name, 1, most)); };
  const scaler::ModelGroups groups = scaler::model_groups(size("tensor"), size("pipeline"), size("data"), most);
  const comm::DType dtype = floating_dtype(arguments, comm::DType::f32);
  const auto over = arguments.choice<std::string>("over", {{"none", "none"}, {"model", "model"}, {"world", "world"}},
                                                  std::string("model"));
  std::vector<bool> found;
  for (const Arguments& rank : arguments.get<std::vector<Arguments>>("ranks"))
    found.push_back(overflows(rank.get<Gradients>("grads"), dtype));
  const std::size_t world = groups.model.size() * groups.model.front().size();
  if (found.size() != world)
    arguments.refuse(fmt::format("ranks has {} entries; tensor x pipeline x data is {}", found.size(), world));
  return {{"local", ranks_with(found)}, {"overflow", ranks_with(reported(over, groups, found))}};
}

}  // namespace

void add_overflow_operations(AdapterService& service) {
  service.add(
      {"scaler.overflow",
       "which ranks find Inf or NaN in their gradients, and which report an overflow after agreeing",
       {"plumbline", "deepspeed"},
       {{"tensor", "integer", "tensor-parallel ranks, which vary fastest"},
        {"pipeline", "integer", "pipeline stages"},
        {"data", "integer", "data-parallel replicas, which vary slowest"},
        with_fields({"ranks", "list of object [tensor x pipeline x data]", "gradients of each rank"},
                    {{"grads", "list of any", "a list of numbers for each parameter; null: no gradient"}}),
        {"dtype",
         "text",
         "element type of the gradients",
         R"("float32")",
         {"float16", "bfloat16", "float32", "float64"}},
        {"over", "text", "who agrees: none, model (tensor x pipeline) or world", R"("model")"}},
       {{"local", "list of integer", "ranks that find one"}, {"overflow", "list of integer", "ranks that report one"}},
       R"({"tensor": 1, "pipeline": 2, "data": 1, "ranks": [{"grads": [[1, "inf"]]}, {"grads": [null, [2]]}]})",
       {{"invalid_argument", "ranks has another length than tensor x pipeline x data"},
        {"out_of_range", "there are more than 2^16 ranks"}}},
      overflow);
}

}  // namespace plumbline::adapter
