#include "benchmarks/bubble_report.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"
#include "reference/support/quantile.hpp"

namespace plumbline::cli {

using nlohmann::json;
using schedules::IdleTime;
using schedules::ScheduleKind;
using schedules::StageTimes;

namespace {

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> of_ranks(const json& repetition, const char* figure) {
  std::vector<double> values;
  for (const json& rank : repetition.at("ranks")) values.push_back(rank.at(figure).get<double>());
  return values;
}

std::vector<double> of_ranks(const schedules::Timeline& timeline, double schedules::RankTimes::* figure) {
  std::vector<double> values;
  for (const schedules::RankTimes& rank : timeline.ranks) values.push_back(rank.*figure);
  return values;
}

double median_of(const std::vector<double>& samples) { return centre_of(samples).median; }

}  // namespace

std::string BubbleCase::name() const {
  return fmt::format("{} of {}, {}", schedules::name_of(schedule_kind),
                     counted(static_cast<std::size_t>(shape.ranks), "rank"),
                     counted(static_cast<std::size_t>(shape.micro_batches), "micro-batch"));
}

ScheduleRequest BubbleCase::request() const {
  ScheduleRequest request{.schedule_kind = schedule_kind, .shape = shape};
  const double share = 1.0 / shape.stages_per_rank;
  request.options.stages = {{.forward = times.forward * share,
                             .input_gradient = times.input_gradient * share,
                             .weight_gradient = times.weight_gradient * share}};
  return request;
}

Centre centre_of(std::vector<double> samples) {
  if (samples.empty()) throw InvalidArgument("median: there are no samples");
  std::ranges::sort(samples);
  const std::size_t count = samples.size();
  const double middle = median(samples);
  // How many of the samples are below the median of all is binomial: `left` of them, or as many above, are no more
  // likely than 2.5 in 100 to be all that there are.
  // Terms by their logarithms: the first ones of many samples are less than a number can be.
  std::size_t left = 0;
  double logarithm = -static_cast<double>(count), outside = std::exp2(logarithm);
  for (std::size_t next = 0; 2 * (next + 1) < count; ++next) {
    logarithm += std::log2(static_cast<double>(count - next) / static_cast<double>(next + 1));
    const double term = std::exp2(logarithm);
    if (outside + term > 0.025) break;
    outside += term;
    left = next + 1;
  }
  return {middle, samples[left], samples[count - 1 - left], 1 - 2 * outside};
}

namespace {

// The times that computations took in a repetition; of those that were asked for, none.
std::vector<StageTimes> times_in(const json& repetition) {
  std::vector<StageTimes> stages;
  for (const json& stage : repetition.value("stages", json::array())) {
    StageTimes& times = stages.emplace_back();
    times = {stage.at("forward"), stage.at("input_gradient"), stage.at("weight_gradient"), {}};
    if (stage.contains("backward")) times.backward = stage.at("backward").get<double>();
  }
  return stages;
}

// One figure, once a repetition.
struct Samples {
  std::vector<double> measured, simulated;
  void add(double of_run, double of_simulation) {
    measured.push_back(of_run);
    simulated.push_back(of_simulation);
  }
  [[nodiscard]] BubbleFigure figure() const { return {centre_of(measured), median_of(simulated)}; }
};

// Gathers the repetitions of a row.
class Gathering {
 public:
  explicit Gathering(BubbleCase of)
      : row_{.of = std::move(of)},
        asked_(view_of(row_.of.request())),
        rank_barriers_(asked_.timeline.ranks.size()),
        rank_spans_(rank_barriers_.size()) {}

  void add(const json& repetition) {
    ScheduleRequest request = row_.of.request();
    const std::vector<StageTimes> times = times_in(repetition);
    if (!times.empty()) request.options.stages = times;
    const schedules::Timeline simulated = times.empty() ? asked_.timeline : simulate(asked_.schedule, request.options);
    const double makespan = repetition.at("makespan"), barrier = mean_of(of_ranks(repetition, "barrier_bubble"));
    const double work = mean_of(of_ranks(repetition, "work"));
    const double simulated_barrier = mean_of(of_ranks(simulated, &schedules::RankTimes::barrier_bubble));
    row_.makespans.push_back(makespan);
    row_.ratios.push_back(makespan / simulated.makespan);
    makespans_.add(makespan, simulated.makespan);
    barriers_.add(barrier, simulated_barrier);
    spans_.add(std::ranges::max(of_ranks(repetition, "span_bubble")),
               std::ranges::max(of_ranks(simulated, &schedules::RankTimes::span_bubble)));
    of_total_.add(barrier / makespan, simulated_barrier / simulated.makespan);
    of_work_.add(barrier / work, simulated_barrier / mean_of(of_ranks(simulated, &schedules::RankTimes::work)));
    add_ranks(repetition, simulated);
  }

  BubbleRow row() {
    row_.simulated_makespan = makespans_.figure().simulated;
    row_.ratio = centre_of(row_.ratios);
    row_.barrier = barriers_.figure();
    row_.span = spans_.figure();
    row_.ratio_of_total = of_total_.figure();
    row_.ratio_of_work = of_work_.figure();
    const std::vector<IdleTime>& idle = idle_of_middle();
    for (std::size_t rank = 0; rank < rank_barriers_.size(); ++rank) {
      BubbleRow::Rank& one = row_.ranks.emplace_back();
      one.barrier_bubbles = rank_barriers_[rank].measured;
      one.simulated_barrier_bubble = median_of(rank_barriers_[rank].simulated);
      one.span_bubble = median_of(rank_spans_[rank].measured);
      one.simulated_span_bubble = median_of(rank_spans_[rank].simulated);
      one.idle = idle[rank];
      for (const schedules::IdleCause& part : schedules::kIdleCauses)
        row_.idle.*part.seconds += idle[rank].*part.seconds / static_cast<double>(idle.size());
    }
    if (!row_.of.libtorch && asked_.formula) calculate(*asked_.formula);
    return std::move(row_);
  }

 private:
  void add_ranks(const json& repetition, const schedules::Timeline& simulated) {
    double longest = 0;
    std::vector<IdleTime>& idle = idle_.emplace_back(rank_barriers_.size());
    for (std::size_t rank = 0; rank < rank_barriers_.size(); ++rank) {
      const json& figures = repetition.at("ranks").at(rank);
      const double span = figures.at("span_bubble");
      rank_barriers_[rank].add(figures.at("barrier_bubble"), simulated.ranks[rank].barrier_bubble);
      rank_spans_[rank].add(span, simulated.ranks[rank].span_bubble);
      longest = std::max(longest, figures.at("work").get<double>() + span);
      row_.peak_activations = std::max(row_.peak_activations, figures.at("peak_activations").get<int>());
      for (const schedules::IdleCause& part : schedules::kIdleCauses)
        idle[rank].*part.seconds = figures.at("idle").at(part.name).get<double>();
    }
    row_.free_steps.push_back(longest);
  }
  // Of one repetition, so that parts sum to a bubble: of the one whose bubble is the median, or the last below it.
  [[nodiscard]] const std::vector<IdleTime>& idle_of_middle() const {
    std::vector<std::size_t> order(idle_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [this](std::size_t i) { return barriers_.measured[i]; });
    return idle_[order[(order.size() - 1) / 2]];
  }
  void calculate(const ClosedForm& form) {
    const double work = mean_of(of_ranks(asked_.timeline, &schedules::RankTimes::work));
    if (form.of_span) {
      row_.span.closed_form = form.seconds;
      return;
    }
    row_.barrier.closed_form = form.seconds;
    row_.ratio_of_total.closed_form = form.seconds / (work + form.seconds);
    row_.ratio_of_work.closed_form = form.seconds / work;
  }

  BubbleRow row_;
  ScheduleView asked_;
  Samples makespans_, barriers_, spans_, of_total_, of_work_;
  std::vector<std::vector<IdleTime>> idle_;  // by repetition and rank
  std::vector<Samples> rank_barriers_, rank_spans_;
};

}  // namespace

BubbleRow bubble_row(BubbleCase of, const json& answer) {
  Gathering gathering(std::move(of));
  for (const json& repetition : answer.at("repetitions")) gathering.add(repetition);
  return gathering.row();
}

std::string why_no_closed_form(const BubbleCase& of) {
  if (of.libtorch) return "stages take different times";
  if (closed_form(of.request())) return "";
  switch (of.schedule_kind) {
    case ScheduleKind::automatic:
      return "made for the times, by search";
    case ScheduleKind::forward_only:
      return "it trains nothing";
    case ScheduleKind::interleaved:
      return "it holds where the ranks divide the micro-batches";
    case ScheduleKind::looped_breadth_first:
    case ScheduleKind::zb_h1:
      return "it holds from as many micro-batches as ranks on";
    case ScheduleKind::zb_h2:
      return "it holds for equal times, from twice as many micro-batches as ranks on";
    case ScheduleKind::interleaved_zero_bubble:
    case ScheduleKind::zbv:
      return "it holds for equal times and a multiple of the ranks as micro-batches, from twice as many on";
    case ScheduleKind::v_half:
    case ScheduleKind::v_min:
      return "it holds for equal times and more than a few micro-batches";
    case ScheduleKind::dualpipev:
      return "it holds for equal times, where the ranks divide the micro-batches";
    default:
      return "none holds";
  }
}

namespace {

// As --durations takes them.
std::string durations_text(const BubbleCase& of) {
  if (of.libtorch) return "measured";
  return fmt::format("F={},I={},W={}", of.times.forward, of.times.input_gradient, of.times.weight_gradient);
}

}  // namespace

std::vector<record::Measurement> measurements_of(const BubbleRow& row, const std::string& backend) {
  const schedules::Shape& shape = row.of.shape;
  const std::map<std::string, std::string> labels{{"backend", backend},
                                                  {"world", std::to_string(shape.ranks)},
                                                  {"schedule", std::string(schedules::name_of(row.of.schedule_kind))},
                                                  {"micro_batches", std::to_string(shape.micro_batches)},
                                                  {"chunks", std::to_string(shape.stages_per_rank)},
                                                  {"devices", row.of.libtorch ? "libtorch" : "emulated"},
                                                  {"durations", durations_text(row.of)}};
  record::Measurement all{
      .benchmark = "pipeline_bubble", .labels = labels, .samples = row.makespans, .unit = "seconds", .derived = {}};
  const auto add_idle = [](record::Measurement& to, const IdleTime& idle) {
    for (const schedules::IdleCause& part : schedules::kIdleCauses)
      to.derived[fmt::format("idle_{}_seconds", part.name)] = idle.*part.seconds;
  };
  all.derived = {{"simulated_seconds", row.simulated_makespan},
                 {"ratio_to_simulated", row.ratio.median},
                 {"ratio_to_simulated_low", row.ratio.low},
                 {"ratio_to_simulated_high", row.ratio.high},
                 {"ratio_to_simulated_confidence", row.ratio.confidence}};
  const auto add = [&](const std::string& name, const BubbleFigure& figure) {
    all.derived[name] = figure.measured.median;
    all.derived["simulated_" + name] = figure.simulated;
    if (figure.closed_form) all.derived["closed_form_" + name] = *figure.closed_form;
  };
  add("barrier_bubble_seconds", row.barrier);
  add("span_bubble_seconds", row.span);
  add("bubble_of_makespan_ratio", row.ratio_of_total);
  add("bubble_of_work_ratio", row.ratio_of_work);
  add_idle(all, row.idle);
  std::vector<record::Measurement> list{all};
  for (std::size_t rank = 0; rank < row.ranks.size(); ++rank) {
    const BubbleRow::Rank& one = row.ranks[rank];
    record::Measurement& of_rank = list.emplace_back(record::Measurement{.benchmark = "pipeline_bubble.rank",
                                                                         .labels = labels,
                                                                         .samples = one.barrier_bubbles,
                                                                         .unit = "seconds",
                                                                         .derived = {}});
    of_rank.labels["rank"] = std::to_string(rank);
    of_rank.derived = {{"span_bubble_seconds", one.span_bubble},
                       {"simulated_barrier_bubble_seconds", one.simulated_barrier_bubble},
                       {"simulated_span_bubble_seconds", one.simulated_span_bubble}};
    add_idle(of_rank, one.idle);
  }
  return list;
}

std::string bubble_head() {
  return fmt::format(
      "{:<23} {:>3} {:>3} |{:>10} {:>9} {:>7} {:<15}|{:>8} {:>7} {:>7} |{:>8} {:>7} {:>7} | {}\n"
      "{:<23} {:>3} {:>3} |{:>10} {:>9} {:>7} {:<15}|{:>8} {:>7} {:>7} |{:>8} {:>7} {:>7} | {}",
      "", "", "", "makespan", "", "", "", "barrier", "bubble", "", "span", "bubble", "", "idle for, % of the bubble",
      "schedule", "p", "m", "ms", "simulated", "ratio", "interval", "ms", "simul.", "formula", "ms", "simul.",
      "formula", "fill drain depend. transf. late imbal. straggl. overh.");
}

std::string bubble_line(const BubbleRow& row) {
  const auto milliseconds = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e3); };
  const auto figure = [&](const BubbleFigure& one) {
    return fmt::format("{:>8} {:>7} {:>7}", milliseconds(one.measured.median), milliseconds(one.simulated),
                       one.closed_form ? milliseconds(*one.closed_form) : "");
  };
  const double idle = row.idle.sum();
  const auto part = [&](double seconds) { return idle > 0 ? 100 * seconds / idle : 0; };
  return fmt::format(
      "{:<23} {:>3} {:>3} |{:>10} {:>9} {:>7.3f} {:<15}|{} |{} | {:>4.0f} {:>5.0f} {:>7.0f} {:>7.0f} {:>4.0f} {:>6.0f} "
      "{:>8.0f} {:>6.0f}",
      schedules::name_of(row.of.schedule_kind), row.of.shape.ranks, row.of.shape.micro_batches,
      milliseconds(median_of(row.makespans)), milliseconds(row.simulated_makespan), row.ratio.median,
      fmt::format("[{:.3f}, {:.3f}]", row.ratio.low, row.ratio.high), figure(row.barrier), figure(row.span),
      part(row.idle.fill), part(row.idle.drain), part(row.idle.dependency), part(row.idle.transfer),
      part(row.idle.sent_late), part(row.idle.imbalance), part(row.idle.straggler), part(row.idle.overhead));
}

}  // namespace plumbline::cli
