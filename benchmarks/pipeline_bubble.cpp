#include "benchmarks/pipeline_bubble.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>

#include "benchmarks/bubble_figures.hpp"
#include "benchmarks/stream_clock.hpp"
#include "harness/subject/training_module.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/training/detail/random.hpp"
#include "reference/training/pipeline/schedule_of.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::bench {
namespace {

using nlohmann::json;
using schedules::Period;
using schedules::Schedule;

schedules::Shape shape_of(const json& arguments, const comm::Communicator& world) {
  return {
      .ranks = world.size(), .micro_batches = arguments.at("micro_batches"), .stages_per_rank = arguments.at("chunks")};
}

// The periods of all ranks, on rank 0; elsewhere nothing.
Computations gathered(comm::Communicator& world, const Schedule& schedule, const std::vector<Period>& own) {
  constexpr int kTag = 1;
  std::vector<double> numbers;
  for (const Period& period : own) numbers.insert(numbers.end(), {period.start, period.end});
  if (world.rank() != 0) {
    world.send({numbers.data(), std::ssize(numbers), comm::DType::f64}, 0, kTag);
    return {};
  }
  Computations all{own};
  for (int rank = 1; rank < world.size(); ++rank) {
    numbers.resize(2 * computations_of(schedule, rank));
    world.recv({numbers.data(), std::ssize(numbers), comm::DType::f64}, rank, kTag);
    auto& periods = all.emplace_back();
    for (std::size_t i = 0; i < numbers.size(); i += 2) periods.push_back({numbers[i], numbers[i + 1]});
  }
  return all;
}

json figures_of_run(const Schedule& schedule, const schedules::SimulationOptions& options, const Computations& run) {
  return to_json_value(figures_of(schedule, options, measured_timeline(schedule, run)));
}

// The first run, in which memory and threads find their places, does not count.
template <class Run>
std::vector<Computations> repeated(comm::Communicator& world, const Schedule& schedule, int repetitions,
                                   const Run& run) {
  std::vector<Computations> runs;
  for (int i = 0; i <= repetitions; ++i) {
    Computations all = gathered(world, schedule, run());
    if (i > 0) runs.push_back(std::move(all));
  }
  return runs;
}

// What fits the times is searched for them: without messages' costs, as the simulator's side of the comparison has it.
Schedule schedule_for(schedules::ScheduleKind schedule_kind, const schedules::Shape& shape,
                      const schedules::SimulationOptions& costs) {
  return schedules::lower(schedule_kind == schedules::ScheduleKind::automatic
                              ? schedules::automatic(shape, {.costs = costs, .activation_limits = {}}).schedule
                              : schedules::generate(schedule_kind, shape));
}

json emulated(comm::Communicator& world, const device::MemorySpace&, const json& arguments) {
  schedules::SimulationOptions options{.stages = {{.forward = arguments.at("forward"),
                                                   .input_gradient = arguments.at("input_gradient"),
                                                   .weight_gradient = arguments.at("weight_gradient")}}};
  const auto schedule_kind = schedules::schedule_kind_of(arguments.at("schedule").get<std::string>());
  const Schedule schedule = schedule_for(schedule_kind, shape_of(arguments, world), options);
  options.message_bytes = {arguments.at("message_bytes")};
  const auto runs = repeated(world, schedule, arguments.at("repetitions"), [&] {
    ComputationClock clock;
    schedules::EmulatedDevice device(schedule, world.rank(), options);
    // As the simulator has it: a rank computes on, however many of its messages nobody has received yet.
    (void)schedules::run_rank(
        world, schedule, device.callbacks(),
        {.most_outstanding_sends = std::numeric_limits<std::size_t>::max(), .around = clock.around()});
    return clock.periods();
  });
  if (world.rank() != 0) return nullptr;
  json repetitions = json::array();
  for (const Computations& one : runs) repetitions.push_back(figures_of_run(schedule, options, one));
  return {{"repetitions", std::move(repetitions)}};
}

// ---- LibTorch ----

// Linear layers of `width`, two on each rank however many stages it has, or one a stage; the last ones are the classes.
job::RunSpec perceptron(const json& arguments, const comm::Communicator& world) {
  const std::int64_t width = arguments.at("width"), rows = arguments.at("rows");
  const int micro_batches = arguments.at("micro_batches");
  job::RunSpec spec;
  spec.seed = 1;
  spec.parallel.pipeline = world.size();
  spec.run = {.steps = 1,
              .global_batch = rows * micro_batches,
              .micro_batches = micro_batches,
              .schedule = arguments.at("schedule"),
              .chunks = arguments.at("chunks")};
  spec.stages.clear();
  const int stages = world.size() * spec.run.chunks;
  for (int stage = 0; stage < stages; ++stage) {
    spec.stages.push_back(static_cast<int>(spec.layers.size()));
    for (int i = 0; i < std::max(1, 2 / spec.run.chunks); ++i) {
      spec.layers.emplace_back(job::Linear{width, width});
      spec.layers.emplace_back(job::Relu{});
    }
  }
  spec.optimizer = job::Sgd{.lr = 0.1};
  spec.run.device = arguments.at("device").get<std::string>();
  spec.folder = arguments.at("folder").get<std::string>();
  return spec;
}

void write_files(const job::RunSpec& spec, std::int64_t width) {
  std::filesystem::create_directories(spec.folder);
  training::Random random(spec.seed, 1);
  const auto values = [&](std::int64_t count) {
    std::vector<float> list(static_cast<std::size_t>(count));
    std::ranges::generate(list, [&] { return random.uniform(1 / std::sqrt(static_cast<double>(width))); });
    return list;
  };
  job::SafetensorsWriter weights, batches;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    weights.add<float>(parameter.name, parameter.shape, values(job::elements_of(parameter.shape)));
  weights.write(spec.weights_file());
  batches.add<float>("x", {1, spec.run.global_batch, width}, values(spec.run.global_batch * width));
  const std::vector<std::int64_t> labels(static_cast<std::size_t>(spec.run.global_batch), 0);
  batches.add<std::int64_t>("y", {1, spec.run.global_batch}, labels);
  batches.write(spec.batches_file());
}

json words(const std::vector<schedules::StageTimes>& stages) {
  json list = json::array();
  for (const schedules::StageTimes& times : stages) {
    list.push_back({{"forward", times.forward},
                    {"input_gradient", times.input_gradient},
                    {"weight_gradient", times.weight_gradient}});
    if (times.backward) list.back()["backward"] = *times.backward;
  }
  return list;
}

// LibTorch on the place's device. Ranks that are threads share it: nobody computes before all were here.
training::Training& training_on(const device::MemorySpace& place) {
  static std::mutex one_at_a_time;
  const std::lock_guard hold(one_at_a_time);
  training::Training& training = subject::training_module();
  training.use_devices(place.use().runtime);
  return training;
}

// How far the clocks of two ranks may be apart at most, where each is wrong by no more than it says: by what both are
// wrong.
double clocks_apart(comm::Communicator& world, double uncertainty) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all_gather({&uncertainty, 1, comm::DType::f64}, {all.data(), std::ssize(all), comm::DType::f64});
  std::ranges::sort(all, std::greater());
  return all.size() > 1 ? all[0] + all[1] : 0;
}

json libtorch(comm::Communicator& world, device::MemorySpace place, const json& arguments) {
  const job::RunSpec spec = perceptron(arguments, world);
  const Schedule schedule = schedules::lower(training::schedule_of(spec, spec.run.micro_batches));
  // LibTorch computes in the device's default stream.
  world.use_stream(nullptr);
  place.use_stream(nullptr);
  std::optional<StreamComputationClock> stream_clock;
  if (!place.is_host()) stream_clock.emplace(place, place.device().kind == comm::Device::Kind::emulated);
  training::Training& training = training_on(place);
  if (world.rank() == 0) write_files(spec, arguments.at("width"));
  world.barrier();
  schedules::AroundComputation timed;  // by the clock of this run
  training::RunSettings settings;
  settings.around = [&timed](const schedules::Action& action, const std::function<void()>& compute) {
    timed(action, compute);
  };
  const auto session = training.pipeline(spec, world, settings);
  const auto rows = job::micro_batches_of(spec, 0, 0);
  double uncertainty = 0;
  const auto runs = repeated(world, schedule, arguments.at("repetitions"), [&] {
    ComputationClock clock;
    if (stream_clock) stream_clock->begin();
    timed = stream_clock ? stream_clock->around() : clock.around();
    (void)session->train(rows, 1);
    if (!stream_clock) return clock.periods();
    uncertainty = std::max(uncertainty, stream_clock->uncertainty());
    return stream_clock->periods();
  });
  const double apart = clocks_apart(world, uncertainty);
  uncertainty = bucketing::largest(world, uncertainty);
  if (world.rank() != 0) return nullptr;
  json repetitions = json::array();
  for (const Computations& one : runs) {
    const schedules::SimulationOptions options{.stages = mean_times(schedule, one)};
    repetitions.push_back(figures_of_run(schedule, options, one));
    repetitions.back()["stages"] = words(options.stages);
  }
  return {{"repetitions", std::move(repetitions)}, {"clock_uncertainty", uncertainty}, {"clocks_apart", apart}};
}

}  // namespace

void add_pipeline_bubble(Registry& registry) {
  registry.push_back({.name = "pipeline_bubble.emulated",
                      .title = "bubbles of pipeline schedules on emulated devices: bench pipeline_bubble",
                      .study = emulated});
  registry.push_back({.name = "pipeline_bubble.libtorch",
                      .title = "bubbles of pipeline stages that LibTorch computes: bench pipeline_bubble --libtorch",
                      .study = libtorch});
}

}  // namespace plumbline::bench
