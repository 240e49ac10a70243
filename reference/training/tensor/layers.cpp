#include "reference/training/tensor/layers.hpp"

#include <cstdint>
#include <numeric>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a node keeps of its group.
struct KeptGroup : torch::CustomClassHolder {
  explicit KeptGroup(const TensorGroup& of) : group(of) {}
  TensorGroup group;
};

void keep(AutogradContext* context, const TensorGroup& group) {
  context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<KeptGroup>(group));
}
TensorGroup kept(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<KeptGroup>(context->saved_data["group"].toCapsule())->group;
}

// The sum over the group, row-major.
at::Tensor sum_over(const TensorGroup& group, const at::Tensor& tensor) {
  const at::Tensor sum = group.where.empty(tensor.sizes(), tensor.scalar_type()).copy_(tensor.detach());
  if (sum.numel() > 0)
    group.group->all_reduce(group.where.buffer_of(sum), group.where.buffer_of(sum), comm::ReduceOp::sum);
  group.where.settle();
  return sum.to(tensor.device());
}

at::Tensor own_part(const TensorGroup& group, const at::Tensor& whole) {
  const Extent part = extent_of(whole.size(-1), group.size(), group.rank());
  return whole.narrow(-1, part.begin, part.size).contiguous();
}

// Messages are of one size: narrower parts are filled up.
at::Tensor joined_parts(const TensorGroup& group, const at::Tensor& part, std::int64_t features) {
  const std::int64_t widest = extent_of(features, group.size(), 0).size;
  const RankDevice& where = group.where;
  std::vector<std::int64_t> shape = part.sizes().vec();
  shape.back() = widest;
  const at::Tensor own = where.empty(shape, part.scalar_type()).zero_();
  own.narrow(-1, 0, part.size(-1)).copy_(part.detach());
  shape.insert(shape.begin(), group.size());
  const at::Tensor all = where.empty(shape, part.scalar_type());
  if (own.numel() > 0) group.group->all_gather(where.buffer_of(own), where.buffer_of(all));
  where.settle();
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < group.size(); ++rank)
    parts.push_back(all[rank].narrow(-1, 0, extent_of(features, group.size(), rank).size));
  return at::cat(parts, -1).to(part.device());
}

// All rows of a block go to, or come from, one rank.
at::Tensor exchanged_once(const TensorGroup& group, const at::Tensor& rows, const std::vector<std::int64_t>& to,
                          const std::vector<std::int64_t>& from) {
  const std::int64_t features = rows.size(1);
  std::vector<std::int64_t> in_counts, out_counts;
  for (const std::int64_t count : to) in_counts.push_back(count * features);
  for (const std::int64_t count : from) out_counts.push_back(count * features);
  const at::Tensor in = group.where.empty(rows.sizes(), rows.scalar_type()).copy_(rows.detach());
  const at::Tensor out =
      group.where.empty({std::accumulate(from.begin(), from.end(), std::int64_t{0}), features}, rows.scalar_type());
  group.group->run_uneven({.operation = comm::Operation::all_to_all,
                           .in = group.where.buffer_of(in),
                           .out = group.where.buffer_of(out),
                           .in_counts = in_counts,
                           .out_counts = out_counts});
  group.where.settle();
  return out.to(rows.device());
}

struct Exchanged : torch::autograd::Function<Exchanged> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const TensorGroup& group,
                            const std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
    keep(context, group);
    context->saved_data["to"] = to;
    context->saved_data["from"] = from;
    return exchanged_once(group, rows, to, from);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {exchanged_once(kept(context), gradients[0], context->saved_data["from"].toIntVector(),
                           context->saved_data["to"].toIntVector()),
            {},
            {},
            {}};
  }
};

struct Copied : torch::autograd::Function<Copied> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& whole, const TensorGroup& group) {
    keep(context, group);
    return whole.view_as(whole);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {sum_over(kept(context), gradients[0]), {}};
  }
};

struct Summed : torch::autograd::Function<Summed> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& part, const TensorGroup& group) {
    return sum_over(group, part);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) { return {gradients[0], {}}; }
};

struct Gathered : torch::autograd::Function<Gathered> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& part, const TensorGroup& group,
                            std::int64_t features) {
    keep(context, group);
    return joined_parts(group, part, features);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {own_part(kept(context), gradients[0]), {}, {}};
  }
};

struct Scattered : torch::autograd::Function<Scattered> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& whole, const TensorGroup& group) {
    keep(context, group);
    context->saved_data["features"] = whole.size(-1);
    return own_part(group, whole);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {joined_parts(kept(context), gradients[0], context->saved_data["features"].toInt()), {}};
  }
};

}  // namespace

at::Tensor copied_to(const TensorGroup& group, const at::Tensor& whole) { return Copied::apply(whole, group); }
at::Tensor summed_over(const TensorGroup& group, const at::Tensor& part) { return Summed::apply(part, group); }
at::Tensor gathered_from(const TensorGroup& group, const at::Tensor& part, std::int64_t features) {
  return Gathered::apply(part, group, features);
}
at::Tensor scattered_to(const TensorGroup& group, const at::Tensor& whole) { return Scattered::apply(whole, group); }

at::Tensor exchanged_rows(const TensorGroup& group, const at::Tensor& rows, const std::vector<std::int64_t>& to,
                          const std::vector<std::int64_t>& from) {
  return Exchanged::apply(rows, group, to, from);
}

std::vector<std::int64_t> counts_from_all(const TensorGroup& group, const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> others(counts.size());
  const auto count = static_cast<std::int64_t>(counts.size());
  group.group->all_to_all({counts.data(), count, comm::DType::i64}, {others.data(), count, comm::DType::i64});
  return others;
}

at::Tensor column_linear(const TensorGroup& group, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, const Pass& pass) {
  return linear(copied_to(group, x), weight, bias, pass);
}

at::Tensor row_linear(const TensorGroup& group, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const Pass& pass) {
  const at::Tensor sum = summed_over(group, linear(x, weight, {}, pass));
  return bias.defined() ? sum.add(bias) : sum;
}

at::Tensor narrowed(const at::Tensor& whole, const Shard& shard) {
  if (shard.dim < 0) return whole;
  return whole.narrow(shard.dim, shard.part.begin, shard.part.size).contiguous().clone();
}

}  // namespace plumbline::training
