// scaler.unscale: gradients multiplied by the inverse of a loss scale.
#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/scaler/unscale.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

constexpr std::int64_t kMostUnscaled = 1 << 22;  // of all results together

comm::DType destination_type(const Arguments& arguments, comm::DType otherwise) {
  using comm::DType;
  return arguments.choice<DType>(
      "to", {{"float16", DType::f16}, {"bfloat16", DType::bf16}, {"float32", DType::f32}, {"float64", DType::f64}},
      otherwise);
}

// Elements of each result. Those of other lengths are left to the scaler, which rejects them.
std::vector<std::size_t> lengths_of(const Arguments& arguments, const std::vector<TypedValues>& given) {
  const auto elements = arguments.find<std::vector<std::int64_t>>("elements");
  if (elements && elements->size() != given.size())
    arguments.refuse(fmt::format("elements has {} entries for {} gradients", elements->size(), given.size()));
  std::vector<std::size_t> lengths;
  std::int64_t left = kMostUnscaled;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::int64_t count = elements ? (*elements)[i] : static_cast<std::int64_t>(given[i].size());
    if (count < 0) arguments.refuse(fmt::format("elements has {}; a result has 0 elements or more", count));
    if (count > left) arguments.refuse(fmt::format("the results have more than {} elements together", kMostUnscaled));
    left -= count;
    lengths.push_back(static_cast<std::size_t>(count));
  }
  return lengths;
}

json unscale_gradients(const Arguments& arguments) {
  const comm::DType from = floating_dtype(arguments, comm::DType::f32), to = destination_type(arguments, from);
  const auto inverse = static_cast<float>(arguments.get<double>("inverse"));
  std::vector<TypedValues> given, results;
  for (const auto& values : arguments.get<std::vector<std::vector<double>>>("grads")) given.emplace_back(from, values);
  std::vector<scaler::Unscaling> list;
  for (const std::size_t length : lengths_of(arguments, given)) results.emplace_back(to, std::vector<double>(length));
  for (std::size_t i = 0; i < given.size(); ++i) list.push_back({given[i].buffer(), results[i].buffer()});
  const bool found = scaler::unscale(list, inverse);
  return {{"grads", lists_of(results)}, {"found_inf", found}};
}

}  // namespace

void add_unscale_operations(AdapterService& service) {
  const Words dtypes{"float16", "bfloat16", "float32", "float64"}, ours{"plumbline"};
  service.add(
      {"scaler.unscale",
       "multiplies gradients by the inverse of a loss scale, and looks for Inf and NaN",
       {"plumbline", "torch"},
       {{"grads", "list of list of number [gradients][elements]", "the gradients"},
        {"dtype", "text", "their element type", R"("float32")", dtypes},
        {"to", "text", "element type of the results; null: dtype", kOptional, dtypes, ours},
        {"inverse", "number", "what they are multiplied by, in float32"},
        where_named({"elements",
                     "list of long integer [gradients]",
                     "elements of the memory of each result, 2^22 at most together; null: those of its gradient",
                     kOptional,
                     {},
                     ours})},
       {{"grads", "list of list of number [gradients][elements]", "the results"},
        {"found_inf", "boolean", "an element of grads is infinite or NaN"}},
       R"({"grads": [[1, 2], [4]], "inverse": 0.5})",
       {{"invalid_argument",
         "a result has another number of elements than its gradient, elements has another length than grads or a "
         "negative number, or the results have more than 2^22 elements together"},
        {"unsupported", "dtype is neither to nor float16 or bfloat16 with to float32"}}},
      unscale_gradients);
}

}  // namespace plumbline::adapter
