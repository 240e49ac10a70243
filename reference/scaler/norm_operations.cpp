// scaler.total_norm: the norm by which gradients would be clipped, of one list or of the parts of a model.
#include <cmath>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/scaler/detail/gradient_norm.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

using Part = std::vector<std::vector<double>>;

double norm_of_part(const Part& part, comm::DType dtype, double p) {
  std::vector<TypedValues> gradients;
  for (const std::vector<double>& values : part) gradients.emplace_back(dtype, values);
  const std::vector<comm::Buffer> buffers = buffers_of(gradients);
  return scaler::total_norm(std::vector<comm::ConstBuffer>(buffers.begin(), buffers.end()), p);
}

// PyTorch gives a part without gradients the norm 0, which takes part in the sum, and adds powers in the gradients'
// type. Here such a part is left out, and powers have 32 bits at least.
double norm_of_parts(const std::vector<Part>& parts, std::vector<double> norms, comm::DType dtype, double p,
                     bool as_torch) {
  if (as_torch) return scaler::combined_norm(norms, dtype, p);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty()) norms[kept++] = norms[i];
  norms.resize(kept);
  return scaler::combined_norm(norms, dtype == comm::DType::f64 ? dtype : comm::DType::f32, p);
}

json total_norm(const Arguments& arguments) {
  const comm::DType dtype = floating_dtype(arguments, comm::DType::f32);
  const double p = arguments.get<double>("norm_type", 2);
  const bool rejects = arguments.get<bool>("error_if_nonfinite", false);
  const auto parts = arguments.get<std::vector<Part>>("parts");
  std::vector<double> norms;
  for (const Part& part : parts) norms.push_back(norm_of_part(part, dtype, p));
  const double total = norm_of_parts(parts, norms, dtype, p, arguments.convention() == Convention::torch);
  if (rejects && !std::isfinite(total))
    throw scaler::NonFiniteNorm(
        fmt::format("scaler.total_norm: the norm of order {} is {}; it must be finite", p, total));
  return {{"total_norm", total}, {"part_norms", norms}};
}

}  // namespace

void add_norm_operations(AdapterService& service) {
  service.add({"scaler.total_norm",
               "the norm of gradients, without clipping, combined over parts such as pipeline stages or shards",
               {"plumbline", "torch"},
               {{"parts", "list of list of list of number [parts][gradients][elements]", "gradients of each part"},
                {"norm_type", "number", R"(order of the norm: a number, "inf" or "-inf")", "2.0"},
                {"dtype",
                 "text",
                 "element type of the gradients",
                 R"("float32")",
                 {"float16", "bfloat16", "float32", "float64"}},
                {"error_if_nonfinite", "boolean", "reject a total norm that is non-finite", "false"}},
               {{"total_norm", "number", "the norm of all parts together; 0 without gradients"},
                {"part_norms", "list of number [parts]", "the norm of each part; 0 of one without gradients"}},
               R"({"parts": [[[3]], [[4], [12]]]})",
               {{"invalid_argument", "norm_type is infinite and a gradient has no elements"},
                {"failed", "the total norm is non-finite and error_if_nonfinite is true"}}},
              total_norm);
}

}  // namespace plumbline::adapter
