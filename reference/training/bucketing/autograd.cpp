#include "reference/training/bucketing/autograd.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <c10/core/GradMode.h>
#include <c10/util/strides.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/bucketing/flat_tensors.hpp"
#include "reference/training/detail/added_type.hpp"

namespace plumbline::training {
namespace {

using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<at::Tensor>()));

bucketing::Gradient gradient_of_leaf(const NamedTensor& leaf, const RankDevice& where) {
  const std::optional<comm::DType> dtype = added_type_of(leaf.tensor.scalar_type());
  if (!dtype)
    throw Unsupported(
        fmt::format("leaf '{}': gradients of {} are not added", leaf.name, c10::toString(leaf.tensor.scalar_type())));
  if (!leaf.tensor.is_leaf()) throw InvalidArgument(fmt::format("'{}' is no leaf of the graph", leaf.name));
  if (leaf.tensor.device() != where.memory())
    throw Unsupported(fmt::format("leaf '{}' lies on {}; gradients in memory of {} are reduced", leaf.name,
                                  leaf.tensor.device().str(), comm::name_of(where.device())));
  return {.elements = leaf.tensor.numel(), .dtype = *dtype, .device = where.device()};
}

// Its own order in memory, where that has no gaps.
std::vector<std::int64_t> strides_of(const at::Tensor& leaf) {
  if (leaf.is_non_overlapping_and_dense()) return leaf.strides().vec();
  const auto row_major = c10::contiguous_strides(leaf.sizes());
  return {row_major.begin(), row_major.end()};
}

class ReadyHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    ready_();
    return outputs;
  }

 private:
  std::function<void()> ready_;
};

}  // namespace

class AutogradReducer::Impl {
 public:
  Impl(comm::Communicator& group, std::vector<NamedTensor> leaves, AutogradOptions options)
      : leaves_(std::move(leaves)), options_(std::move(options)), buffers_(options_.buffers, options_.where) {
    if (options_.reducer.lazy)
      throw InvalidArgument(
          "buckets that take memory when it is needed: leaves' gradients are laid out as in buckets that have it");
    if (!uses_views() && where().device().kind == comm::Device::Kind::emulated)
      throw Unsupported(
          "gradients that stay where LibTorch has made them, in the host's memory, with buckets on an emulated device");
    std::vector<bucketing::Gradient> gradients;
    std::vector<int> backwards;
    left_alone_ = are_named(options_.left_alone);
    delayed_ = are_named(options_.delayed);
    sparse_ = are_named(options_.sparse);
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      gradients.push_back(gradient_of_leaf(leaves_[i], where()));
      gradients.back().sparse = sparse_[i];
      if (sparse_[i] && leaves_[i].tensor.dim() == 0)
        throw InvalidArgument(
            fmt::format("'{}' is a scalar; what has a first dimension has sparse rows", leaves_[i].name));
    }
    for (std::size_t i = leaves_.size(); i-- > 0;)
      if (is_reduced(i)) backwards.push_back(static_cast<int>(i));
    bucketing::ReducerOptions reducer = options_.reducer;
    reducer.place = where().bucket_memory();
    reducer.buffers = buffers_.buffers();
    reducer.names.clear();
    for (const NamedTensor& leaf : leaves_) reducer.names.push_back(leaf.name);
    if (reducer.reduced)  // who is told computes with LibTorch
      reducer.reduced = [this, told = std::move(reducer.reduced)](int bucket) {
        where().settle();
        told(bucket);
      };
    if (options_.rebuild)
      reducer.rebuild = [this, gradients](std::span<const int> order) { return plan_in(gradients, order); };
    reducer_.emplace(std::vector<comm::Communicator*>{&group}, gradients, plan_in(gradients, backwards),
                     std::move(reducer));
    views_.resize(leaves_.size());
    make_views();
    where().settle();  // buckets are zero by then
    add_hooks();
  }
  ~Impl() {
    for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
    const c10::AutoGradMode without_gradients(false);
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (is_view(i)) leaves_[i].tensor.mutable_grad() = views_[i].clone();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void begin(bool synchronise, const std::vector<at::Tensor>& outputs) {
    bucketing::Pass pass{.synchronise = synchronise};
    if (options_.reducer.unused == bucketing::Unused::find_unused) pass.unused = unreached_from(outputs);
    const bool had_rebuilt = reducer_->has_rebuilt();
    buffers_.gather();
    reducer_->begin(pass);
    if (synchronise) buffers_.scatter();
    if (reducer_->has_rebuilt() != had_rebuilt) move_to_new_views();
    synchronises_ = synchronise;
  }

  const bucketing::Outcome& finish() {
    const bucketing::Outcome& outcome = reducer_->finish();
    if (!outcome.synchronised) return outcome;
    where().settle();
    const c10::AutoGradMode without_gradients(false);
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!outcome.produced[i]) continue;
      at::Tensor& gradient = leaves_[i].tensor.mutable_grad();
      if (sparse_[i])
        gradient = sum_of_rows(i);
      else if (!gradient.defined())  // another rank's
        gradient = uses_views() ? views_[i] : views_[i].clone();
    }
    return outcome;
  }

  void clear() {
    reducer_->clear();
    for (NamedTensor& leaf : leaves_) leaf.tensor.mutable_grad().reset();
  }
  [[nodiscard]] const bucketing::Plan& plan() const { return reducer_->plan(); }

 private:
  [[nodiscard]] const RankDevice& where() const { return options_.where; }
  [[nodiscard]] bool uses_views() const { return options_.reducer.memory == bucketing::GradientMemory::views; }
  [[nodiscard]] bucketing::Plan plan_in(std::span<const bucketing::Gradient> gradients,
                                        std::span<const int> order) const {
    std::vector<int> now, delayed;
    for (const int leaf : order) (delayed_[static_cast<std::size_t>(leaf)] ? delayed : now).push_back(leaf);
    return plan_by_bytes(gradients, now, options_.bucket_bytes, delayed);
  }
  [[nodiscard]] bool is_reduced(std::size_t leaf) const {
    return leaves_[leaf].tensor.requires_grad() && !left_alone_[leaf];
  }
  // Whether each leaf is among the names.
  [[nodiscard]] std::vector<bool> are_named(const std::vector<std::string>& names) const {
    std::vector<bool> named(leaves_.size());
    for (const std::string& name : names) {
      const auto leaf = std::ranges::find(leaves_, name, &NamedTensor::name);
      if (leaf == leaves_.end()) throw InvalidArgument(fmt::format("'{}' is to be treated apart: no such leaf", name));
      named[static_cast<std::size_t>(leaf - leaves_.begin())] = true;
    }
    return named;
  }
  [[nodiscard]] bool is_view(std::size_t leaf) const {
    const at::Tensor& gradient = leaves_[leaf].tensor.grad();
    return uses_views() && gradient.defined() && !gradient.is_sparse() && views_[leaf].defined() &&
           gradient.data_ptr() == views_[leaf].data_ptr() && gradient.strides() == views_[leaf].strides();
  }
  void make_views() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const at::Tensor& leaf = leaves_[i].tensor;
      if (!is_reduced(i) || sparse_[i]) continue;
      views_[i] = at::from_blob(reducer_->view(static_cast<int>(i)).data, leaf.sizes(), strides_of(leaf),
                                leaf.options().requires_grad(false));
    }
  }
  // What was accumulated has been moved to the new buckets.
  void move_to_new_views() {
    std::vector<bool> were_views(leaves_.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i) were_views[i] = is_view(i);
    make_views();
    where().settle();
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (were_views[i]) leaves_[i].tensor.mutable_grad() = views_[i];
  }
  void add_hooks() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!is_reduced(i)) continue;
      Accumulator accumulator = torch::autograd::impl::grad_accumulator(leaves_[i].tensor);
      const auto key = accumulator->add_post_hook(std::make_unique<ReadyHook>([this, i] { take(i); }));
      hooks_.emplace_back(std::move(accumulator), key);
    }
  }

  // A leaf's gradient has been added up. It is the view by the time that the reducer may tell of its bucket.
  void take(std::size_t leaf) {
    const c10::AutoGradMode without_gradients(false);
    at::Tensor& gradient = leaves_[leaf].tensor.mutable_grad();
    if (synchronises_ && options_.before_reduction) options_.before_reduction(leaf, gradient);
    const auto number = static_cast<int>(leaf);
    require_kind(leaf, gradient);
    if (sparse_[leaf]) return take_rows(number, gradient);
    const at::Tensor& view = views_[leaf];
    if (uses_views()) {
      if (!is_view(leaf)) gradient = view.copy_(gradient);
      return reducer_->ready(number);
    }
    if (gradient.strides() != view.strides())
      gradient = at::empty_strided(gradient.sizes(), view.strides(), gradient.options()).copy_(gradient);
    reducer_->ready(number, where().buffer_of(gradient));
  }

  void require_kind(std::size_t leaf, const at::Tensor& gradient) const {
    if (gradient.is_sparse() != sparse_[leaf])
      throw InvalidArgument(fmt::format("leaf '{}': its gradient is {}, and it is {} those named sparse",
                                        leaves_[leaf].name, gradient.is_sparse() ? "sparse" : "dense",
                                        sparse_[leaf] ? "among" : "not among"));
    if (gradient.is_sparse() && gradient.sparse_dim() != 1)
      throw InvalidArgument(
          fmt::format("leaf '{}': its gradient is sparse in {} dimensions; in the first one is possible",
                      leaves_[leaf].name, gradient.sparse_dim()));
  }
  void take_rows(int leaf, const at::Tensor& gradient) {
    const at::Tensor indices = gradient._indices().contiguous(), values = gradient._values().contiguous();
    reducer_->ready(leaf, bucketing::SparseRows{.indices = {indices.const_data_ptr<std::int64_t>(),
                                                            static_cast<std::size_t>(indices.numel())},
                                                .values = buffer_of(values)});
  }
  [[nodiscard]] at::Tensor sum_of_rows(std::size_t leaf) const {
    const bucketing::SparseRows rows = reducer_->rows(static_cast<int>(leaf));
    const at::Tensor& tensor = leaves_[leaf].tensor;
    const auto count = std::ssize(rows.indices);
    const at::Tensor indices = at::empty({1, count}, at::kLong);
    std::ranges::copy(rows.indices, indices.data_ptr<std::int64_t>());
    std::vector<std::int64_t> shape = tensor.sizes().vec();
    shape.front() = count;
    const at::Tensor values = at::empty(shape, tensor.options().requires_grad(false));
    bucketing::copy_divided(rows.values, buffer_of(values), 1);
    return at::sparse_coo_tensor(indices, values, tensor.sizes(), values.options().layout(at::kSparse), true);
  }

  // The leaves that no path of the graph leads to.
  [[nodiscard]] std::vector<int> unreached_from(const std::vector<at::Tensor>& outputs) const {
    std::set<const torch::autograd::Node*> seen;
    std::vector<const torch::autograd::Node*> open;
    const auto visit = [&](const torch::autograd::Node* node) {
      if (node != nullptr && seen.insert(node).second) open.push_back(node);
    };
    for (const at::Tensor& output : outputs) visit(torch::autograd::impl::gradient_edge(output).function.get());
    while (!open.empty()) {
      const torch::autograd::Node* node = open.back();
      open.pop_back();
      for (const auto& edge : node->next_edges()) visit(edge.function.get());
    }
    std::vector<int> unreached;
    std::size_t hook = 0;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!is_reduced(i)) continue;
      if (!seen.contains(&*hooks_[hook].first)) unreached.push_back(static_cast<int>(i));
      ++hook;
    }
    return unreached;
  }

  std::vector<NamedTensor> leaves_;
  AutogradOptions options_;
  std::vector<bool> left_alone_, delayed_, sparse_;  // by leaf
  FlatTensors buffers_;
  std::optional<bucketing::Reducer> reducer_;
  std::vector<at::Tensor> views_;
  std::vector<std::pair<Accumulator, std::uintptr_t>> hooks_;  // of the leaves that require a gradient
  bool synchronises_ = false;
};

AutogradReducer::AutogradReducer(comm::Communicator& group, std::vector<NamedTensor> leaves, AutogradOptions options)
    : impl_(std::make_unique<Impl>(group, std::move(leaves), std::move(options))) {}
AutogradReducer::~AutogradReducer() = default;
void AutogradReducer::begin(bool synchronise, const std::vector<at::Tensor>& outputs) {
  impl_->begin(synchronise, outputs);
}
const bucketing::Outcome& AutogradReducer::finish() { return impl_->finish(); }
void AutogradReducer::clear() { impl_->clear(); }
const bucketing::Plan& AutogradReducer::plan() const { return impl_->plan(); }

}  // namespace plumbline::training
