#include "benchmarks/allreduce_fusion.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "benchmarks/device_timing.hpp"
#include "benchmarks/fusion_times.hpp"
#include "benchmarks/memory.hpp"
#include "harness/bench/gradient_lists.hpp"
#include "harness/bench/known_values.hpp"
#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/scaled_copies.hpp"

namespace plumbline::bench {
namespace {

using bucketing::Gradient;
using bucketing::GradientMemory;
using comm::Buffer;
using comm::Communicator;
using device::MemorySpace;

using Sizes = std::vector<bucketing::NamedSize>;

std::vector<Gradient> gradients_of(const Sizes& sizes, const MemorySpace& place) {
  std::vector<Gradient> gradients;
  for (const auto& size : sizes) gradients.push_back({.elements = size.elements, .device = place.device()});
  return gradients;
}
std::vector<std::string> names_of(const Sizes& sizes) {
  std::vector<std::string> names;
  for (const auto& size : sizes) names.push_back(size.name);
  return names;
}
// As they get ready: from the last to the first.
std::vector<int> backwards(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

std::span<float> floats(Buffer buffer) {
  return {static_cast<float*>(buffer.data), static_cast<std::size_t>(buffer.count)};
}

// Memory of each gradient's own.
class OwnMemory {
 public:
  OwnMemory(const MemorySpace& place, const Sizes& sizes) {
    for (const auto& size : sizes) memory_.emplace_back(place, size.elements);
  }
  [[nodiscard]] Buffer operator[](int gradient) const { return memory_[static_cast<std::size_t>(gradient)].buffer(); }

 private:
  std::vector<Memory> memory_;
};

// An emulated back-propagation. On a device it is put into a stream of its own, and the place's waits for each
// gradient: reductions go on there while the next ones are made.
class BackPropagation {
 public:
  explicit BackPropagation(const MemorySpace& place) : place_(place), own_(place) {
    if (place.is_host()) return;
    stream_.emplace(place.use().runtime, place.index());
    passed_.emplace(place.use().runtime, place.index());
    own_.use_stream(stream_->get());
  }
  ~BackPropagation() {
    try {
      if (stream_) stream_->synchronize();
    } catch (const std::exception&) {
      // The device does nothing any more: nobody writes to gradients.
    }
  }
  BackPropagation(const BackPropagation&) = delete;
  BackPropagation& operator=(const BackPropagation&) = delete;

  /// After all that was put into the place's stream.
  void begin() const { order(place_, own_); }
  /// Makes a gradient, at the cost of several products an element: zeros on the host; on a device what it was, by as
  /// many passes over its memory, and what is put into the place's stream meets it.
  void make(Buffer gradient) {
    if (place_.is_host()) return make_on_host(floats(gradient));
    const auto& [halved, doubled] = works_of(gradient);
    for (const Works* works : {&halved, &halved, &doubled, &doubled}) own_.launch(*works);
    order(own_, place_);
  }

 private:
  using Works = std::vector<device::ScaledCopyWork>;
  static void make_on_host(std::span<float> gradient) {
    constexpr int products = 8;
    for (float& value : gradient) {
      float made = value;
      for (int i = 0; i < products; ++i) made = made * 0.5F + 0.25F;
      value = made * 0.0F;  // steps repeat: values must not grow
    }
  }
  // What is put into `then` from now on starts after what was put into `first`.
  void order(const MemorySpace& first, const MemorySpace& then) const {
    if (place_.is_host()) return;
    passed_->record(first.use().stream);
    place_.use().runtime->wait(place_.index(), then.use().stream, passed_->get());
  }
  // Of a gradient that is made again and again: half of it, and twice as much.
  const std::pair<Works, Works>& works_of(const Buffer& gradient) {
    const auto [found, is_new] = works_.try_emplace(gradient.data);
    if (is_new) {
      const std::array in_place{device::ScaledCopy{gradient, gradient}};
      const auto times = [&](double factor) {
        return device::scaled_copy_work(in_place, device::times(factor), place_.device());
      };
      found->second = {times(0.5), times(2)};
    }
    return found->second;
  }
  MemorySpace place_, own_;
  std::optional<device::OwnStream> stream_;  // of a device
  std::optional<device::OwnEvent> passed_;
  std::map<const void*, std::pair<Works, Works>> works_;
};

// What all kinds have: the gradients, and whether a step made of them what it should.
class Step : public Operation {
 public:
  Step(Communicator& world, const MemorySpace& place, const Sizes& sizes)
      : world_(world), place_(place), names_(names_of(sizes)) {
    for (const auto& size : sizes) bytes_ += size.elements * 4;
  }
  [[nodiscard]] std::int64_t bytes() const override { return bytes_; }
  std::optional<bool> check() override {
    const float own = bucketing::factor_of_rank(world_.rank());
    for (int i = 0; i < count(); ++i) bucketing::fill_known(place_, gradient(i), i, own);
    // On a device a gradient is, while it is made, another one: a reduction that does not wait for it is wrong.
    step(!place_.is_host());
    for (int i = 0; i < count(); ++i) {
      bucketing::require_known(
          place_, gradient(i), i, reduces() ? bucketing::factor_of_mean(world_.size()) : own,
          fmt::format("a wrong answer on rank {}: gradient '{}'", world_.rank(), names_[static_cast<std::size_t>(i)]));
      place_.fill(gradient(i).data, std::byte{}, gradient(i).bytes());
    }
    return true;
  }
  void run() override { step(true); }
  /// A step whose gradients are there without a backward.
  void run_without_backward() { step(false); }

 protected:
  virtual void step(bool makes) = 0;
  [[nodiscard]] virtual Buffer gradient(int number) = 0;
  [[nodiscard]] virtual bool reduces() const { return true; }
  [[nodiscard]] Communicator& world() { return world_; }
  [[nodiscard]] const MemorySpace& place() const { return place_; }
  [[nodiscard]] int count() const { return static_cast<int>(names_.size()); }

 private:
  Communicator& world_;
  MemorySpace place_;
  std::vector<std::string> names_;
  std::int64_t bytes_ = 0;
};

class PerTensor final : public Step {
 public:
  PerTensor(Communicator& world, const MemorySpace& at, const Sizes& sizes) : Step(world, at, sizes), own_(at, sizes) {}
  [[nodiscard]] std::map<std::string, double> derived() const override {
    return {{"launches", static_cast<double>(count())}};
  }

 protected:
  void step(bool) override {
    for (int i = count(); i-- > 0;) world().all_reduce(own_[i], own_[i], comm::ReduceOp::avg);
  }
  Buffer gradient(int number) override { return own_[number]; }

 private:
  OwnMemory own_;
};

class Backward final : public Step {
 public:
  Backward(Communicator& world, const MemorySpace& at, const Sizes& sizes)
      : Step(world, at, sizes), own_(at, sizes), back_propagation_(at) {}

 protected:
  void step(bool makes) override {
    if (makes) back_propagation_.begin();
    for (int i = count(); makes && i-- > 0;) back_propagation_.make(own_[i]);
  }
  Buffer gradient(int number) override { return own_[number]; }
  [[nodiscard]] bool reduces() const override { return false; }

 private:
  OwnMemory own_;
  BackPropagation back_propagation_;
};

class CopyAlone final : public Step {
 public:
  CopyAlone(Communicator& world, const MemorySpace& at, const Sizes& sizes)
      : Step(world, at, sizes), memory_(bucketing::memory_of(at)), own_(at, sizes), buckets_(at, sizes) {}

 protected:
  void step(bool) override {
    for (int i = count(); i-- > 0;) memory_->copy_divided(own_[i], buckets_[i], 1);
    for (int i = count(); i-- > 0;) memory_->copy_divided(buckets_[i], own_[i], 1);
  }
  Buffer gradient(int number) override { return own_[number]; }
  [[nodiscard]] bool reduces() const override { return false; }

 private:
  std::shared_ptr<bucketing::BucketMemory> memory_;
  OwnMemory own_, buckets_;
};

struct Kind {
  GradientMemory memory = GradientMemory::views;
  bool makes = false;
  bool overlap = true;
};

class Fused final : public Step {
 public:
  Fused(Communicator& world, const MemorySpace& at, const Sizes& sizes, std::int64_t limit, Kind kind)
      : Step(world, at, sizes),
        kind_(kind),
        own_(at, kind.memory == GradientMemory::copies ? sizes : Sizes()),
        order_(backwards(sizes.size())),
        reducer_({&world}, gradients_of(sizes, at),
                 bucketing::buckets_in_order(gradients_of(sizes, at), order_, std::array{limit}),
                 {.place = bucketing::memory_of(at), .memory = kind.memory, .overlap = kind.overlap}),
        back_propagation_(at) {}
  [[nodiscard]] std::map<std::string, double> derived() const override {
    return {{"launches", static_cast<double>(launches_)}, {"copied_bytes", static_cast<double>(copied_)}};
  }

 protected:
  void step(bool makes) override {
    reducer_.begin();
    makes = makes && kind_.makes;
    if (makes) back_propagation_.begin();
    for (const int i : order_) {
      if (makes) back_propagation_.make(gradient(i));
      if (kind_.memory == GradientMemory::copies)
        reducer_.ready(i, own_[i]);
      else
        reducer_.ready(i);
    }
    const bucketing::Outcome& outcome = reducer_.finish();
    launches_ = outcome.launches.size();
    copied_ = outcome.copied_in + outcome.copied_out;
    reducer_.clear();
  }
  Buffer gradient(int number) override {
    return kind_.memory == GradientMemory::copies ? own_[number] : reducer_.view(number);
  }

 private:
  Kind kind_;
  OwnMemory own_;
  std::vector<int> order_;
  bucketing::Reducer reducer_;
  BackPropagation back_propagation_;
  std::size_t launches_ = 0;
  std::int64_t copied_ = 0;
};

// ---- studies: bench allreduce_fusion ----

Sizes sizes_of_model(const std::string& model) {
  if (model == "resnet50") return bucketing::resnet50_gradients();
  if (model == "gpt2") return bucketing::gpt2_small_gradients();
  throw InvalidArgument(fmt::format("model '{}'; there are resnet50 and gpt2", model));
}

nlohmann::json json_of(const bucketing::BucketTime& time) {
  return {{"bucket_bytes", time.limit_bytes}, {"samples", time.samples}, {"launches", time.launches}};
}

// Seconds of the slowest rank; on a device between two events of the place's stream.
bucketing::Timing timing_at(const MemorySpace& place) {
  if (place.is_host()) return bucketing::seconds_of_slowest;
  const auto timer = std::make_shared<StreamTimer>(place.use().runtime, place.index(), place.use().stream);
  return [timer](Communicator& group, const std::function<void()>& body) {
    group.barrier();
    return bucketing::largest(group, timer->seconds_of(body));
  };
}

// All sizes of buckets in rounds, as `--bucket-size auto` tries them.
nlohmann::json choice(Communicator& world, const MemorySpace& place, const nlohmann::json& arguments) {
  const Sizes sizes = sizes_of_model(arguments.at("model"));
  const std::vector<Gradient> gradients = gradients_of(sizes, place);
  const bucketing::Tuning tuning =
      bucketing::fastest_limit(world, gradients,
                               {.limits = arguments.at("limits").get<std::vector<std::int64_t>>(),
                                .rounds = arguments.at("rounds"),
                                .seconds = arguments.at("seconds"),
                                .per_tensor = true,
                                .names = names_of(sizes),
                                .place = bucketing::memory_of(place),
                                .timing = timing_at(place),
                                .before = against_known_sums(world, gradients, place, names_of(sizes))});
  if (world.rank() != 0) return nullptr;
  nlohmann::json times = nlohmann::json::array();
  for (const auto& time : tuning.times) times.push_back(json_of(time));
  std::int64_t elements = 0;
  for (const auto& size : sizes) elements += size.elements;
  return {{"gradients", sizes.size()},
          {"bytes", 4 * elements},
          {"chosen", tuning.limit_bytes},
          {"times", std::move(times)},
          {"per_tensor", json_of(tuning.per_tensor)}};
}

nlohmann::json crossover(Communicator& world, const MemorySpace& place, const nlohmann::json& arguments) {
  const auto times = fusion_times(world, {.together = arguments.at("together"),
                                          .rounds = arguments.at("rounds"),
                                          .seconds = arguments.at("seconds"),
                                          .place = place,
                                          .timing = timing_at(place)});
  if (world.rank() != 0) return nullptr;
  nlohmann::json list = nlohmann::json::array();
  for (const auto& time : times)
    list.push_back({{"bytes", time.bytes}, {"separate", time.separate}, {"fused", time.fused}});
  return {{"times", std::move(list)}};
}

// A backward, its reductions, and steps of both, in rounds.
nlohmann::json overlap(Communicator& world, const MemorySpace& place, const nlohmann::json& arguments) {
  const Sizes sizes = sizes_of_model(arguments.at("model"));
  const std::int64_t limit = arguments.at("limit");
  const int rounds = arguments.at("rounds");
  const double seconds = arguments.at("seconds");
  const bucketing::Timing timing = timing_at(place);
  Backward backward(world, place, sizes);
  Fused overlapped(world, place, sizes, limit, {.makes = true}),
      serial(world, place, sizes, limit, {.makes = true, .overlap = false});
  for (Operation* operation : {static_cast<Operation*>(&overlapped), static_cast<Operation*>(&serial)}) {
    (void)operation->check();
    operation->run();
  }
  backward.run();
  OverlapTimes times;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
    if (round >= bucketing::kLeastRounds && bucketing::is_over(world, begin, seconds)) break;
    const std::array<std::function<void()>, 4> kinds{
        [&] { times.backward.push_back(timing(world, [&] { backward.run(); })); },
        [&] { times.reductions.push_back(timing(world, [&] { overlapped.run_without_backward(); })); },
        [&] { times.serial.push_back(timing(world, [&] { serial.run(); })); },
        [&] { times.overlapped.push_back(timing(world, [&] { overlapped.run(); })); }};
    for (std::size_t i = 0; i < kinds.size(); ++i) kinds[(i + static_cast<std::size_t>(round)) % kinds.size()]();
  }
  if (world.rank() != 0) return nullptr;
  return {{"backward", times.backward},
          {"reductions", times.reductions},
          {"serial", times.serial},
          {"overlapped", times.overlapped}};
}

using Prepare =
    std::function<std::unique_ptr<Operation>(Communicator&, const MemorySpace&, const Sizes&, std::int64_t limit)>;

template <class Kind>
Prepare without_buckets() {
  return [](Communicator& world, const MemorySpace& place, const Sizes& sizes, std::int64_t) {
    return std::make_unique<Kind>(world, place, sizes);
  };
}
Prepare fused(Kind kind) {
  return [kind](Communicator& world, const MemorySpace& place, const Sizes& sizes, std::int64_t limit) {
    return std::make_unique<Fused>(world, place, sizes, limit, kind);
  };
}

}  // namespace

void add_allreduce_fusion(Registry& registry) {
  const auto ring = [](int world) { return 2.0 * (world - 1) / world; };
  const auto add = [&](const std::string& model, Sizes (*sizes)(), const char* name, const char* title,
                       bool has_buckets, const Prepare& prepare) {
    registry.push_back({.name = "allreduce_fusion." + model + "." + name,
                        .title = title,
                        .has_sizes = has_buckets,
                        .size_label = "bucket_bytes",
                        .busbw_factor = ring,
                        .prepare = [sizes, prepare](Communicator& world, const Parameters& parameters) {
                          if (parameters.dtype != comm::DType::f32)
                            throw Unsupported("the benchmark of fusion takes dtype f32");
                          return prepare(world, parameters.place, sizes(), parameters.bytes);
                        }});
  };
  const auto add_model = [&](const std::string& model, Sizes (*sizes)()) {
    add(model, sizes, "per_tensor", "a blocking all-reduce a gradient", false, without_buckets<PerTensor>());
    add(model, sizes, "view", "buckets that gradients live in", true, fused({}));
    add(model, sizes, "copy", "buckets that gradients are copied to", true, fused({.memory = GradientMemory::copies}));
    add(model, sizes, "copy_alone", "the copies into buckets and out", false, without_buckets<CopyAlone>());
    add(model, sizes, "backward", "an emulated back-propagation", false, without_buckets<Backward>());
    add(model, sizes, "overlap", "the same, with buckets reduced meanwhile", true, fused({.makes = true}));
    add(model, sizes, "serial", "the same, with buckets reduced afterwards", true,
        fused({.makes = true, .overlap = false}));
  };
  add_model("resnet50", bucketing::resnet50_gradients);
  add_model("gpt2", bucketing::gpt2_small_gradients);
  registry.push_back({.name = "allreduce_fusion.choice",
                      .title = "which size of buckets is the best: bench allreduce_fusion",
                      .study = choice});
  registry.push_back({.name = "allreduce_fusion.beside",
                      .title = "how much of its reductions a backward hides: bench allreduce_fusion",
                      .study = overlap});
  registry.push_back({.name = "allreduce_fusion.crossover",
                      .title = "up to which size copying gradients together pays: bench allreduce_fusion",
                      .study = crossover});
}

}  // namespace plumbline::bench
