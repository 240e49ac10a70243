#include "harness/trainer/single_device.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "reference/training/bucketing/tensors.hpp"
#include "reference/training/detail/device.hpp"
#include "reference/training/pipeline/batch.hpp"

namespace plumbline::training {
namespace {

using Named = std::map<std::string, at::Tensor>;

const c10::Device kHost{c10::DeviceType::CPU};

Tensors tensors_in(const std::vector<NamedTensor>& named) {
  Tensors list;
  for (const NamedTensor& one : named) list.push_back(one.tensor.detach());
  return list;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor one = a.contiguous(), other = b.contiguous();
  return std::ranges::equal(std::span(one.const_data_ptr<float>(), static_cast<std::size_t>(one.numel())),
                            std::span(other.const_data_ptr<float>(), static_cast<std::size_t>(other.numel())), {},
                            std::bit_cast<std::uint32_t, float>, std::bit_cast<std::uint32_t, float>);
}

// Infinite where either is no number.
double distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const double most = a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
  return std::isnan(most) ? std::numeric_limits<double>::infinity() : most;
}
double largest(const at::Tensor& a) { return a.numel() == 0 ? 0 : a.to(at::kDouble).abs().max().item<double>(); }

// The worst in parts of its bound; what must be equal and is not, is beyond all others.
void see(Distance& worst, const std::string& tensor, double difference, double bound) {
  const auto part = [](double one, double limit) {
    return one == 0 ? 0 : limit == 0 ? std::numeric_limits<double>::infinity() : one / limit;
  };
  if (worst.tensor.empty() || part(difference, bound) > part(worst.difference, worst.bound))
    worst = {tensor, difference, bound};
}

// What the single device makes of an update.
struct Alone {
  Named mean;                  // of the gradients
  std::vector<Named> slices;   // of each data rank that has rows
  std::vector<Named> buffers;  // of each data rank, after it
  double loss = 0;
};

}  // namespace

// What a rank holds, by name and shape.
struct Holding {
  std::vector<NamedTensor> parameters, buffers;  // on the device "meta"
};

// The whole model on one device, in one graph.
class WholeModel {
 public:
  WholeModel(const TrainerSettings& settings, const PipelineTask& task, at::ScalarType type)
      : type_(type), device_(device_of(task.device, 0)), store_(settings.seed, device_, type) {
    const std::vector<schedules::Interval> parts = parts_of(task.blocks, settings.pipeline, settings.chunks, task.cut);
    const std::vector<int> ranks = schedule_of(settings, task.schedule, settings.micro_batches).stage_to_rank;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      stages_.push_back(make_stage(task.blocks, parts[part], store_));
      const bool sends = part + 1 < parts.size() && ranks[part] != ranks[part + 1];
      rounds_.push_back(sends && settings.fp16 == "naive");
      for (const NamedTensor& one : stages_.back()->parameters()) {
        parameters_[one.name] = one.tensor;
        ++uses_[one.name];
      }
      for (const NamedTensor& one : stages_.back()->buffers()) buffers_[one.name] = one.tensor;
    }
  }

  [[nodiscard]] const Named& parameters() const { return parameters_; }
  [[nodiscard]] const Named& buffers() const { return buffers_; }
  /// How many stages use a parameter.
  [[nodiscard]] const std::map<std::string, int>& uses() const { return uses_; }
  void set(const Named& parameters) { copy(parameters, parameters_); }
  void set_buffers(const Named& buffers) { copy(buffers, buffers_); }
  void clear_gradients() {
    for (auto& [name, tensor] : parameters_) tensor.mutable_grad() = at::Tensor();
  }

  /// The loss of a micro-batch; its gradient, divided so, is added.
  double back_propagate(const Tensors& x, const Tensors& y, double divisor) {
    Tensors values = placed_on(device_, x);
    for (at::Tensor& value : values)
      if (value.is_floating_point()) value = value.to(type_);
    for (std::size_t part = 0; part < stages_.size(); ++part) {
      values = stages_[part]->forward(values, {});
      // There and back: the gradient isrounded in the same way.
      if (rounds_[part]) values[0] = values[0].to(at::kHalf).to(type_);
    }
    const at::Tensor loss = at::cross_entropy_loss(values.at(0), placed_on(device_, y).at(0));
    torch::autograd::backward({loss.div(divisor)}, {});
    return loss.item<double>();
  }

 private:
  static void copy(const Named& from, Named& to) {
    const c10::AutoGradMode without_gradients(false);
    for (auto& [name, tensor] : to) tensor.copy_(from.at(name));
  }

  at::ScalarType type_;
  c10::Device device_;
  TensorStore store_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<bool> rounds_;  // what goes on from each
  Named parameters_, buffers_;
  std::map<std::string, int> uses_;
};

class SingleDeviceCheck::Implementation {
 public:
  Implementation(const TrainerSettings& settings, const PipelineTask& task, comm::Communicator& world,
                 PipelineProgram& program)
      : settings_(settings), task_(task), world_(world), program_(program) {
    find_holdings();
    program_.tell_gradients(
        [this](std::span<const at::Tensor> gradients) { used_.assign(gradients.begin(), gradients.end()); });
    if (is_judge()) {
      whole_.emplace(settings_, task_, at::kFloat);
      for (int data = 0; data < settings_.data; ++data) data_.push_back(task_.data(data));
      optimizer_.emplace(task_.optimizer, whole_->parameters().size());
      gradients_in_turn_ = backwards_in_turn();
    }
    take_moments();
  }

  [[nodiscard]] bool ends_update(const TrainingProgram& functions, std::int64_t batch) const {
    const auto [first, count] = update_of(batch, functions.training_batches, settings_.accumulation);
    return batch + 1 == first + count;
  }

  BatchResult train(const TrainingProgram& functions, int epoch, std::int64_t batch,
                    const std::function<void(const UpdateComparison&)>& tell) {
    const auto [first, count] = update_of(batch, functions.training_batches, settings_.accumulation);
    if (batch == first) begin();
    const BatchResult result = functions.train(epoch, batch);
    losses_.push_back(result.loss);
    if (ends_update(functions, batch)) ++reductions_;
    if (!std::isfinite(result.loss)) {
      if (is_judge()) compare_losses(epoch, first, batch, tell);
      return result;
    }
    if (!ends_update(functions, batch)) return result;
    const std::vector<Named> gradients = gathered(used_, &Holding::parameters);
    const std::vector<Named> after = gathered(tensors_in(program_.parameters()), &Holding::parameters);
    const std::vector<Named> statistics = gathered(tensors_in(program_.buffers()), &Holding::buffers);
    if (is_judge()) tell(compare(epoch, first, count, gradients, after, statistics));
    after_ = after;
    statistics_after_ = statistics;
    is_first_ = false;
    return result;
  }

 private:
  [[nodiscard]] bool is_judge() const { return world_.rank() == 0; }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  [[nodiscard]] static std::string of(std::size_t rank, const std::string& name) {
    return fmt::format("rank {}, '{}'", rank, name);
  }

  void find_holdings() {
    const std::vector<schedules::Interval> parts =
        parts_of(task_.blocks, settings_.pipeline, settings_.chunks, task_.cut);
    const std::vector<int> of_parts = schedule_of(settings_, task_.schedule, settings_.micro_batches).stage_to_rank;
    const job::Parallel parallel{.pipeline = settings_.pipeline, .data = settings_.data};
    for (int rank = 0; rank < world_.size(); ++rank) {
      TensorStore shapes(0, c10::DeviceType::Meta);
      Holding holding;
      Named seen;
      for (std::size_t part = 0; part < parts.size(); ++part) {
        if (of_parts[part] != job::coordinates_of(parallel, rank).pipeline) continue;
        const auto stage = make_stage(task_.blocks, parts[part], shapes);
        for (const NamedTensor& one : stage->parameters())
          if (seen.emplace(one.name, one.tensor).second) holding.parameters.push_back(one);
        for (const NamedTensor& one : stage->buffers()) holding.buffers.push_back(one);
      }
      holdings_.push_back(std::move(holding));
    }
  }

  // Whether each stage's micro-batches are back-propagated in the order in which a single device takes them.
  [[nodiscard]] bool backwards_in_turn() const {
    const schedules::Schedule schedule = schedule_of(settings_, task_.schedule, settings_.micro_batches);
    for (const auto& actions : schedule.ranks) {
      std::map<int, int> last;
      for (const schedules::Action& action : actions) {
        if (action.kind != schedules::ActionKind::backward && action.kind != schedules::ActionKind::weight_gradient)
          continue;
        const auto [place, is_new] = last.try_emplace(action.stage, action.micro_batch);
        if (!is_new && action.micro_batch < place->second) return false;
        place->second = action.micro_batch;
      }
    }
    return true;
  }

  // ---- what the ranks have ----

  // The tensors of all ranks, on rank 0.
  std::vector<Named> gathered(const Tensors& own, std::vector<NamedTensor> Holding::* kind) {
    Tensors flat;
    for (const at::Tensor& tensor : own) flat.push_back(tensor.detach().to(kHost, at::kFloat).reshape({-1}));
    const at::Tensor memory = flat.empty() ? at::empty({0}, at::kFloat) : at::cat(flat);
    if (!is_judge()) {
      world_.send({memory.data_ptr<float>(), memory.numel(), comm::DType::f32}, 0);
      return {};
    }
    std::vector<Named> all;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const std::vector<NamedTensor>& names = holdings_[rank].*kind;
      all.push_back(split(names, rank == 0 ? memory : received(names, static_cast<int>(rank))));
    }
    return all;
  }
  at::Tensor received(const std::vector<NamedTensor>& names, int rank) {
    std::int64_t count = 0;
    for (const NamedTensor& one : names) count += one.tensor.numel();
    const at::Tensor memory = at::empty({count}, at::kFloat);
    world_.recv({memory.data_ptr<float>(), count, comm::DType::f32}, rank);
    return memory;
  }
  static Named split(const std::vector<NamedTensor>& names, const at::Tensor& memory) {
    Named all;
    std::int64_t first = 0;
    for (const NamedTensor& one : names) {
      all[one.name] = memory.narrow(0, first, one.tensor.numel()).view(one.tensor.sizes());
      first += one.tensor.numel();
    }
    return all;
  }

  // A run that goes on has moments.
  void take_moments() {
    const int steps = program_.optimizer().steps();
    if (steps == 0) return;
    Tensors first, second;
    for (const OptimizerState::Moments& one : program_.optimizer().moments()) {
      first.push_back(one.first);
      second.push_back(one.second);
    }
    const std::vector<Named> firsts = gathered(first, &Holding::parameters);
    const std::vector<Named> seconds = gathered(second, &Holding::parameters);
    if (!is_judge()) return;
    const c10::Device device = device_of(task_.device, 0);
    const auto moment = [device](const std::vector<Named>& all, const std::string& name) {
      return of_first_holder(all, name).clone().to(device);
    };
    std::vector<OptimizerState::Moments> moments;
    for (const auto& [name, parameter] : whole_->parameters())
      moments.push_back({moment(firsts, name), moment(seconds, name)});
    optimizer_->restore(steps, std::move(moments));
    given_ = false;
  }

  void begin() {
    losses_.clear();
    before_ = gathered(tensors_in(program_.parameters()), &Holding::parameters);
    statistics_ = gathered(tensors_in(program_.buffers()), &Holding::buffers);
  }

  static const at::Tensor& of_first_holder(const std::vector<Named>& all, const std::string& name) {
    return std::ranges::find_if(all, [&](const Named& one) { return one.contains(name); })->at(name);
  }

  // ---- the single device ----

  Alone alone(WholeModel& model, int epoch, std::int64_t first, std::int64_t count) {
    Named values;
    for (const auto& [name, parameter] : model.parameters()) values[name] = of_first_holder(before_, name);
    model.set(values);
    Alone result;
    std::vector<double> losses(static_cast<std::size_t>(count)), slices(losses.size());
    Named statistics_of_rank_0;  // when the last batch begins
    for (int data = 0; data < settings_.data; ++data) {
      const TrainingData& rows = data_[static_cast<std::size_t>(data)];
      const std::int64_t own = own_batches_of({first, count}, rows.own_batches);
      model.clear_gradients();
      model.set_buffers(statistics_of(statistics_, data));
      for (std::int64_t batch = first; batch < first + count; ++batch) {
        if (batch + 1 == first + count && task_.gradients.broadcast_buffers) {
          if (data == 0) statistics_of_rank_0 = copies(model.buffers());
          model.set_buffers(statistics_of_rank_0);
        }
        if (batch >= first + own) continue;
        const auto at = static_cast<std::size_t>(batch - first);
        losses[at] += batch_of(model, rows.training(epoch, batch), own);
        slices[at] += settings_.micro_batches;
      }
      if (own > 0) result.slices.push_back(gradients_of(model));
      result.buffers.push_back(copies(model.buffers()));
    }
    for (std::size_t at = 0; at < losses.size(); ++at)
      result.loss += losses[at] / slices[at] / static_cast<double>(losses.size());
    result.mean = mean_of(result.slices, divisor_of(result));
    return result;
  }
  // The data ranks that have rows, or all.
  [[nodiscard]] std::int64_t divisor_of(const Alone& single) const {
    return task_.gradients.join == "present" ? std::ssize(single.slices) : settings_.data;
  }
  double batch_of(WholeModel& model, const BatchTensors& batch, std::int64_t batches) {
    const int parts = settings_.micro_batches;
    const std::vector<Tensors> x = micro_batches_of({batch.x}, parts, "inputs");
    const std::vector<Tensors> y = micro_batches_of({batch.y}, parts, "labels");
    double losses = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      losses += model.back_propagate(x[i], y[i], static_cast<double>(parts * batches));
    return losses;
  }
  static Named gradients_of(const WholeModel& model) {
    Named gradients;
    for (const auto& [name, parameter] : model.parameters())
      gradients[name] =
          (parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter)).detach().cpu().clone();
    return gradients;
  }
  static Named copies(const Named& tensors) {
    Named all;
    for (const auto& [name, tensor] : tensors) all[name] = tensor.detach().cpu().clone();
    return all;
  }
  // Added in rank order, divided once.
  static Named mean_of(const std::vector<Named>& slices, std::int64_t divisor) {
    Named mean = copies(slices.front());
    for (auto& [name, sum] : mean) {
      for (std::size_t data = 1; data < slices.size(); ++data) sum.add_(slices[data].at(name));
      if (divisor > 1) sum.div_(static_cast<double>(divisor));
    }
    return mean;
  }
  // Of all the ranks of a data rank's pipeline.
  [[nodiscard]] Named statistics_of(const std::vector<Named>& all, int data) const {
    const job::Parallel parallel{.pipeline = settings_.pipeline, .data = settings_.data};
    Named merged;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (job::coordinates_of(parallel, static_cast<int>(rank)).data == data)
        merged.insert(all[rank].begin(), all[rank].end());
    return merged;
  }

  // ---- the comparison ----

  // The first of a kind says enough.
  static auto finder(UpdateComparison& result) {
    return [&result](const char* kind, std::string text) {
      if (std::ranges::find(result.findings, kind, &UpdateComparison::Finding::kind) == result.findings.end())
        result.findings.push_back({kind, std::move(text)});
    };
  }

  UpdateComparison compare(int epoch, std::int64_t first, std::int64_t count, const std::vector<Named>& gradients,
                           const std::vector<Named>& after, const std::vector<Named>& statistics) {
    UpdateComparison result{.epoch = epoch, .batch = first + count - 1};
    for (const double loss : losses_) result.loss += loss / static_cast<double>(losses_.size());
    const auto find = finder(result);
    values_before(find);
    statistics_before(find);
    const Alone single = alone(*whole_, epoch, first, count);
    loss(result, single, find);
    copies_are_equal("gradients", gradients, find);
    copies_are_equal("values after the update", after, find);
    compare_gradients(result, single, epoch, first, count, gradients, find);
    compare_statistics(single, statistics, find);
    compare_updates(result, gradients, after, find);
    return result;
  }

  // Where the ranks' loss is no number there is no update: then only whether the single device has one, of the batches
  // so far.
  void compare_losses(int epoch, std::int64_t first, std::int64_t batch,
                      const std::function<void(const UpdateComparison&)>& tell) {
    const Alone single = alone(*whole_, epoch, first, std::ssize(losses_));
    if (!std::isfinite(single.loss)) return;
    UpdateComparison result{.epoch = epoch, .batch = batch, .loss = losses_.back()};
    finder(result)("loss",
                   fmt::format("the loss is {}, on the single device it is finite: {}", result.loss, single.loss));
    tell(result);
  }

  // What comes between two updates, an evaluation say, changes no statistics.
  template <class Find>
  void statistics_before(const Find& find) const {
    if (is_first_) return;
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      for (const auto& [name, value] : statistics_[rank])
        if (!same_bits(value, statistics_after_[rank].at(name)))
          find("statistics", of(rank, name) + " does not start from where the update before it ended");
  }

  template <class Find>
  void values_before(const Find& find) {
    if (is_first_ && given_)
      for (std::size_t rank = 0; rank < ranks(); ++rank)
        for (const auto& [name, value] : before_[rank])
          if (!same_bits(value, whole_->parameters().at(name).detach().cpu()))
            find("given weights", of(rank, name) + " does not start from the seed's value");
    if (is_first_) return;
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      for (const auto& [name, value] : before_[rank])
        if (!same_bits(value, after_[rank].at(name)))
          find("update", of(rank, name) + " does not start from where the update before it ended");
  }

  // A sum of doubles in another order.
  template <class Find>
  void loss(const UpdateComparison& result, const Alone& single, const Find& find) const {
    const double terms = static_cast<double>(settings_.data) * settings_.micro_batches * settings_.accumulation;
    const double bound =
        is_on_host() ? 4 * terms * 0x1p-53 * std::fabs(single.loss) : 64 * 0x1p-24 * (1 + std::fabs(single.loss));
    if (!(std::fabs(result.loss - single.loss) <= bound))
      find("loss", fmt::format("the loss is {}, on the single device {}", result.loss, single.loss));
  }

  template <class Find>
  void copies_are_equal(const char* what, const std::vector<Named>& all, const Find& find) const {
    const job::Parallel parallel{.pipeline = settings_.pipeline, .data = settings_.data};
    std::map<std::string, std::size_t> holder;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      for (const auto& [name, tensor] : all[rank]) {
        const auto [place, is_new] = holder.try_emplace(name, rank);
        if (is_new || same_bits(tensor, all[place->second].at(name))) continue;
        const bool replica = job::coordinates_of(parallel, static_cast<int>(rank)).pipeline ==
                             job::coordinates_of(parallel, static_cast<int>(place->second)).pipeline;
        find(replica ? "replicas" : "shared",
             fmt::format("the {} of '{}' on ranks {} and {} differ by {:.3g}", what, name, place->second, rank,
                         distance(tensor, all[place->second].at(name))));
      }
  }

  // LibTorch computes there on emulated devices, too.
  [[nodiscard]] bool is_on_host() const { return device_of(task_.device, 0).is_cpu(); }
  [[nodiscard]] bool is_shared(const std::string& name) const { return whole_->uses().at(name) > 1; }
  [[nodiscard]] bool has_the_same_bits(const std::string& name) const {
    const bool in_rank_order = settings_.data == 1 || world_.capabilities().has(comm::Capability::rank_order);
    return is_on_host() && gradients_in_turn_ && in_rank_order && !is_shared(name) && !wire_of(task_.gradients);
  }

  template <class Find>
  void compare_gradients(UpdateComparison& result, const Alone& single, int epoch, std::int64_t first,
                         std::int64_t count, const std::vector<Named>& gradients, const Find& find) {
    std::optional<Alone> wide;
    for (const auto& [name, expected] : single.mean) {
      const at::Tensor& got = of_first_holder(gradients, name);
      ++result.gradients;
      const bool equal = same_bits(got, expected);
      result.equal_in_bits += equal ? 1 : 0;
      double bound = 0;
      if (!has_the_same_bits(name)) {
        if (!wide) wide = alone_in_double(epoch, first, count);
        bound = bound_of(name, single, *wide);
      }
      if (!std::isfinite(bound)) {
        find("gradient", fmt::format("the single device's gradient of '{}' is not finite", name));
        continue;
      }
      if (is_projected(expected)) {
        compare_projection(result, name, got, expected, bound, find);
        continue;
      }
      double off = equal ? 0 : distance(got, expected);
      if (const auto wire = wire_of(task_.gradients)) std::tie(off, bound) = of_wire(*wire, name, got, single, bound);
      see(result.gradient, name, off, bound);
      // Zeros that absent ranks add keep a value, and not always the sign of zero.
      const bool same = equal || (off == 0 && std::ssize(single.slices) < settings_.data);
      if (!(off <= bound) || (!same && bound == 0))
        find("gradient",
             fmt::format("the gradient of '{}' is {:.3g} off that of the single device; {}", name, off,
                         bound == 0 ? std::string("the bits must be equal") : fmt::format("at most {:.3g}", bound)));
    }
  }
  // Whether PowerSGD reduced a gradient of that shape in this update.
  [[nodiscard]] bool is_projected(const at::Tensor& gradient) const {
    const auto options = power_sgd_of(task_.gradients);
    if (!options || settings_.data == 1 || reductions_ <= options->start) return false;
    const std::vector<GroupedTensor> leaf{{{"", gradient}}};
    const bucketing::MatrixShape shape = shapes_of(leaf).front();
    const auto rank = static_cast<int>(std::min<std::int64_t>({options->rank, shape.rows, shape.columns}));
    return bucketing::is_worth_compressing(shape, rank, options->least_rate);
  }
  // U is to be a projection on a few directions of A, the mean and what earlier updates left over of it: U'(A - U) = 0,
  // and further singular values are none. Zeros are one, too: so none of its singular values is to be far below A's,
  // which they are not where directions are A times any. `spread` is what the mean may be off by.
  template <class Find>
  void compare_projection(UpdateComparison& result, const std::string& name, const at::Tensor& got,
                          const at::Tensor& mean, double spread, const Find& find) {
    const int rank = power_sgd_of(task_.gradients)->rank;
    const at::Tensor matrix = got.to(at::kDouble).reshape({got.size(0), -1});
    at::Tensor there = mean.to(at::kDouble).reshape(matrix.sizes());
    if (const auto left = left_.find(name); left != left_.end()) there = there.add(left->second);
    const at::Tensor rest = there.sub(matrix);
    left_[name] = rest;
    const double size = there.norm().item<double>();
    const at::Tensor lengths = at::linalg_svdvals(matrix), further = lengths.slice(0, rank);
    const double off = matrix.t().matmul(rest).norm().item<double>() / std::max(size, 0x1p-126) +
                       (further.numel() == 0 ? 0 : further.norm().item<double>());
    const double elements = std::sqrt(static_cast<double>(got.numel()));
    const double bound = 1e-4 * size + 4 * static_cast<double>(reductions_) * elements * spread;
    see(result.gradient, name, off, bound);
    if (!(off <= bound))
      find("gradient", fmt::format("the gradient of '{}' is {:.3g} off a projection on {} directions of the single "
                                   "device's and what was left over; at most {:.3g}",
                                   name, off, rank, bound));
    constexpr double least_share = 0.02;  // a half and more is usual
    const at::Tensor whole = at::linalg_svdvals(there);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(rank, whole.numel()); ++i) {
      const double has = lengths[i].item<double>(), least = least_share * whole[i].item<double>() - bound;
      if (!(has >= least))
        find("gradient", fmt::format("the gradient of '{}' has {:.3g} in direction {} of {}; at least {:.3g} of the "
                                     "single device's and what was left over",
                                     name, has, i + 1, rank, least));
    }
  }
  // How far a gradient is off whose parts were rounded on the way, and how far it may be, where it is off the most in
  // parts of that: each part is rounded, then each addition, the division and the result.
  std::pair<double, double> of_wire(comm::DType wire, const std::string& name, const at::Tensor& got,
                                    const Alone& single, double bound) const {
    const bool is_half = wire == comm::DType::f16;
    const double unit = is_half ? 0x1p-11 : 0x1p-8, least = is_half ? 0x1p-24 : 0x1p-126;
    const double roundings = settings_.data + 3;
    at::Tensor limit = at::zeros_like(got, at::kDouble);
    if (wire == comm::DType::u8) {
      limit.add_(quantisation_error(single) + bound);
    } else {
      for (const Named& slice : single.slices) limit.add_(slice.at(name).to(at::kDouble).abs());
      limit.mul_(roundings * unit / static_cast<double>(divisor_of(single))).add_(roundings * least + bound);
    }
    const at::Tensor off = got.to(at::kDouble).sub(single.mean.at(name)).abs();
    if (off.numel() == 0) return {0, bound};
    const at::Tensor worst = off.div(limit).argmax();  // the first that is no number, where there is one
    return {off.reshape({-1}).index_select(0, worst.reshape({1})).item<double>(),
            limit.reshape({-1}).index_select(0, worst.reshape({1})).item<double>()};
  }
  // Half of the mean of the data ranks' scales, each of all its gradients, and what is rounded beside it.
  [[nodiscard]] double quantisation_error(const Alone& single) const {
    double scales = (settings_.data - static_cast<double>(single.slices.size())) * 0x1p-23;
    for (const Named& slice : single.slices) {
      double most = 0;
      for (const auto& [name, gradient] : slice) most = std::max(most, largest(gradient));
      scales += std::max(2 * most / 255, 0x1p-23);
    }
    return scales * (0.5 + 255 * 0x1p-20) / settings_.data;
  }
  Alone alone_in_double(int epoch, std::int64_t first, std::int64_t count) {
    if (!wide_) wide_.emplace(settings_, task_, at::kDouble);
    return alone(*wide_, epoch, first, count);
  }
  static double bound_of(const std::string& name, const Alone& narrow, const Alone& wide) {
    double most = 0;
    for (const Named& slice : wide.slices) most = std::max(most, largest(slice.at(name)));
    return std::max(8 * distance(narrow.mean.at(name), wide.mean.at(name)), 64 * 0x1p-24 * most);
  }

  template <class Find>
  void compare_statistics(const Alone& single, const std::vector<Named>& statistics, const Find& find) const {
    for (int data = 0; data < settings_.data; ++data) {
      const Named got = statistics_of(statistics, data);
      for (const auto& [name, expected] : single.buffers[static_cast<std::size_t>(data)]) {
        const double bound = is_on_host() ? 0 : 64 * 0x1p-24 * (1 + largest(expected));
        if (same_bits(got.at(name), expected) || (bound > 0 && distance(got.at(name), expected) <= bound)) continue;
        find("statistics",
             fmt::format("'{}' of data rank {} is {:.3g} off", name, data, distance(got.at(name), expected)));
      }
    }
  }

  template <class Find>
  void compare_updates(UpdateComparison& result, const std::vector<Named>& gradients, const std::vector<Named>& after,
                       const Find& find) {
    optimizer_->set_learning_rate(program_.learning_rate());
    const c10::Device device = device_of(task_.device, 0);
    Tensors values, used;
    for (const auto& [name, parameter] : whole_->parameters()) {
      values.push_back(of_first_holder(before_, name).clone().to(device));
      used.push_back(of_first_holder(gradients, name).to(device));
    }
    optimizer_->step(values, used);
    std::size_t i = 0;
    for (const auto& [name, parameter] : whole_->parameters()) {
      const at::Tensor alone = values[i++].cpu(), &got = of_first_holder(after, name);
      const double off = same_bits(got, alone) ? 0 : distance(got, alone);
      see(result.after, name, off, 0);
      if (!same_bits(got, alone)) find("update", fmt::format("'{}' is {:.3g} off after the update", name, off));
    }
  }

  const TrainerSettings& settings_;
  const PipelineTask& task_;
  comm::Communicator& world_;
  PipelineProgram& program_;
  std::vector<Holding> holdings_;  // of each rank
  std::vector<Named> before_, statistics_, after_, statistics_after_;
  Tensors used_;  // this rank's gradients
  std::vector<double> losses_;
  bool is_first_ = true, given_ = true;
  // On rank 0:
  std::optional<WholeModel> whole_, wide_;
  std::vector<TrainingData> data_;
  std::optional<OptimizerState> optimizer_;
  bool gradients_in_turn_ = false;
  std::int64_t reductions_ = 0;  // of each gradient so far
  Named left_;                   // over, by PowerSGD
};

SingleDeviceCheck::SingleDeviceCheck(const TrainerSettings& settings, const PipelineTask& task,
                                     comm::Communicator& world, PipelineProgram& program)
    : own_(std::make_unique<Implementation>(settings, task, world, program)) {}

SingleDeviceCheck::~SingleDeviceCheck() = default;

TrainingProgram SingleDeviceCheck::watched(TrainingProgram functions, std::int64_t updates,
                                           std::function<void(const UpdateComparison&)> tell) {
  TrainingProgram watched = functions;
  watched.train = [this, functions = std::move(functions), left = updates, tell = std::move(tell)](
                      int epoch, std::int64_t batch) mutable {
    if (left == 0) return functions.train(epoch, batch);
    if (own_->ends_update(functions, batch)) --left;
    return own_->train(functions, epoch, batch, tell);
  };
  return watched;
}

}  // namespace plumbline::training
