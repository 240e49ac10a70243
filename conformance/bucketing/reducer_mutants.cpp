// Reducers of gradients with one wrong step. Each is the smallest change that a real fault would make.
#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "conformance/bucketing/bucketing_mutants.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::mutants {

using bucketing::Bucket;
using bucketing::Divisors;
using bucketing::Plan;
using bucketing::ReducerSteps;
using bucketing::Scaling;
using bucketing::Waiting;
using comm::Buffer;
using comm::Communicator;

namespace {

MakeSteps scaling(std::function<Divisors(const Scaling&)> divisors) {
  return with([divisors = std::move(divisors)](ReducerSteps& steps) { steps.divisors = divisors; });
}

comm::Work start_in_place(Communicator& group, Buffer values, comm::ReduceOp op) {
  return group.start(comm::Call{.operation = comm::Operation::all_reduce, .op = op, .in = values, .out = values});
}

// ---- where gradients lie ----

// Gradients come from new memory; from the second step on it is not copied any more.
void stale_view(ReducerSteps& steps) {
  steps.copies_in = [](bool is_view, int steps_before) { return !is_view && steps_before == 0; };
}

// Neighbours are as far apart as the first one is long.
std::int64_t stride_of_the_first(const Plan& plan, const Bucket& bucket, int member) {
  const auto members = plan.members_of(bucket);
  if (members.size() < 2) return 0;
  const std::int64_t place = member * (members[1].begin - members[0].begin);
  const std::int64_t own = members[static_cast<std::size_t>(member)].begin;
  return std::min(place, own);  // inside the bucket
}

// The last member begins an element early, on the end of the one before it.
std::int64_t aliased(const Plan& plan, const Bucket& bucket, int member) {
  const std::int64_t place = bucketing::place_of(plan, bucket, member);
  return member > 0 && member + 1 == bucket.members ? place - 1 : place;
}

// Members are copied in as if nothing lay between them, and the gaps go along as data.
std::int64_t without_gaps(const Plan& plan, const Bucket& bucket, int member) {
  std::int64_t gaps = 0;
  for (int before = 0; before < member; ++before) {
    constexpr std::int64_t aligned = 16;
    const std::int64_t begin = bucketing::place_of(plan, bucket, before);
    if (begin % aligned != 0) return bucketing::place_of(plan, bucket, member);
    gaps += before > 0 ? 1 : 0;
  }
  return bucketing::place_of(plan, bucket, member) - gaps;
}

// ---- unused gradients ----

struct Lacking {
  std::int64_t elements = 0;
  bool any = false;
};

void skip_none(ReducerSteps& steps) {
  const auto lacking = std::make_shared<Lacking>();
  steps.mark_unused = [lacking](bucketing::BucketMemory&, Buffer place) { lacking->elements += place.count; };
  steps.exchanged = [lacking](Buffer bucket, int) {
    bucket.count -= std::min(bucket.count, std::exchange(lacking->elements, 0));
    return bucket;
  };
}

void unused_waits(ReducerSteps& steps) {
  const auto lacking = std::make_shared<Lacking>();
  steps.mark_unused = [lacking](bucketing::BucketMemory& memory, Buffer place) {
    memory.fill_zeros(place);
    lacking->any = true;
  };
  steps.start = [lacking](Communicator& group, Buffer values, comm::ReduceOp op) {
    return std::exchange(lacking->any, false) ? comm::Work() : start_in_place(group, values, op);
  };
}

// ---- passes ----

// How many passes a step has is learnt from the first one.
void learned_count(ReducerSteps& steps) {
  const auto first = std::make_shared<int>(0);
  steps.reduces = [first](bool synchronise, int passes_before) {
    if (*first == 0) {
      if (synchronise) *first = passes_before + 1;
      return synchronise;
    }
    return passes_before + 1 == *first;
  };
}

// ---- additions ----

// The sum from the last rank down, over the number of ranks.
comm::Work add_downwards(Communicator& group, Buffer values, comm::ReduceOp op) {
  const auto count = static_cast<std::size_t>(values.count);
  const auto ranks = static_cast<std::size_t>(group.size());
  if (values.dtype != comm::DType::f32) return start_in_place(group, values, op);
  std::vector<float> all(count * ranks);
  group.all_gather(values, {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::f32});
  auto* to = static_cast<float*>(values.data);
  for (std::size_t i = 0; i < count; ++i) {
    float total = all[(ranks - 1) * count + i];
    for (std::size_t rank = ranks - 1; rank-- > 0;) total += all[rank * count + i];
    to[i] = op == comm::ReduceOp::avg ? total / static_cast<float>(ranks) : total;
  }
  return {};
}

void random_race(ReducerSteps& steps) {
  steps.start = [calls = std::make_shared<int>(0)](Communicator& group, Buffer values, comm::ReduceOp op) {
    return (*calls)++ % 5 == 3 ? add_downwards(group, values, op) : start_in_place(group, values, op);
  };
}

void fused_adds_otherwise(ReducerSteps& steps) {
  const auto members = std::make_shared<int>(0);
  steps.exchanged = [members](Buffer bucket, int count) {
    *members = count;
    return bucket;
  };
  steps.start = [members](Communicator& group, Buffer values, comm::ReduceOp op) {
    return *members > 1 ? add_downwards(group, values, op) : start_in_place(group, values, op);
  };
}

// Reductions in memory of their own, which may be given up: the last one of a pass, that nobody waits for.
class Unwaited {
 public:
  Unwaited() = default;
  ~Unwaited() {
    for (Flight& flight : flights_) try {
        flight.work.wait();
      } catch (const Error&) {  // nobody is left to hear of it
      }
  }
  Unwaited(const Unwaited&) = delete;
  Unwaited& operator=(const Unwaited&) = delete;

  comm::Work start(Communicator& group, Buffer values, comm::ReduceOp op) {
    const auto* bytes = static_cast<const std::byte*>(values.data);
    flights_.push_back({.memory = {bytes, bytes + values.bytes()}, .to = values, .work = {}});
    Buffer own = values;
    own.data = flights_.back().memory.data();
    flights_.back().work = start_in_place(group, own, op);
    return {};
  }
  void wait(comm::Timeout timeout) {
    Flight& flight = flights_[next_++];
    flight.work.wait(timeout);
    std::ranges::copy(flight.memory, static_cast<std::byte*>(flight.to.data));
  }
  void skip() { ++next_; }

 private:
  struct Flight {
    std::vector<std::byte> memory;
    Buffer to;
    comm::Work work;
  };
  std::deque<Flight> flights_;
  std::size_t next_ = 0;
};

void no_wait(ReducerSteps& steps) {
  const auto unwaited = std::make_shared<Unwaited>();
  steps.start = [unwaited](Communicator& group, Buffer values, comm::ReduceOp op) {
    return unwaited->start(group, values, op);
  };
  steps.wait = [unwaited](int bucket, int buckets, comm::Work&, comm::Timeout timeout) {
    if (bucket + 1 < buckets)
      unwaited->wait(timeout);
    else
      unwaited->skip();
  };
}

// From the second reduction of a pass on, each is waited for when it is started.
void extra_wait(ReducerSteps& steps) {
  const auto started = std::make_shared<int>(0);
  steps.start = [started](Communicator& group, Buffer values, comm::ReduceOp op) {
    if ((*started)++ == 0) return start_in_place(group, values, op);
    group.all_reduce(values, values, op);
    return comm::Work();
  };
  steps.wait = [started](int, int, comm::Work& work, comm::Timeout timeout) {
    *started = 0;
    work.wait(timeout);
  };
}

// Where a bucket is sent from is written again as soon as its reduction is started.
void early_reuse(ReducerSteps& steps) {
  const auto sent = std::make_shared<std::vector<std::byte>>();
  steps.start = [sent](Communicator& group, Buffer values, comm::ReduceOp op) {
    const auto* bytes = static_cast<const std::byte*>(values.data);
    if (sent->size() < values.bytes()) sent->resize(std::max<std::size_t>(values.bytes(), std::size_t{1} << 20));
    std::copy_n(bytes, values.bytes(), sent->begin());
    Buffer from = values;
    from.data = sent->data();
    comm::Work work =
        group.start(comm::Call{.operation = comm::Operation::all_reduce, .op = op, .in = from, .out = values});
    std::ranges::fill(*sent, std::byte{0x7f});
    return work;
  };
}

// ---- cases ----

std::string at_reducer(const char* check, const std::string& parameters, int world) {
  return std::string("bucketing.reducer.") + check + "[" + parameters + (parameters.empty() ? "" : ",") +
         "world=" + std::to_string(world) + "]";
}

std::vector<Mutant> places() {
  const auto one = [](const char* model, const char* memory, int world) {
    return at_reducer("single_device", std::string("model=") + model + ",memory=" + memory, world);
  };
  return {
      {"bkt.stale_view", "BUCKET-050", "from the second step on, memory that is handed in is not copied to its bucket",
       "BKT-04", one("mlp", "handed_in", 2), one("mlp", "views", 2), "gradients are made where they are reduced",
       with(stale_view)},
      {"bkt.wrong_stride", "BUCKET-050", "neighbours in a bucket are read as far apart as the first one is long",
       "BKT-11", one("mlp", "own", 2), one("equal", "own", 3), "all are of one length",
       with([](ReducerSteps& steps) { steps.place_out = stride_of_the_first; })},
      {"bkt.alias_offset", "BUCKET-050", "the last gradient of a bucket begins an element early", "BKT-14",
       one("mlp", "views", 2), one("one", "views", 3), "a bucket has one gradient",
       with([](ReducerSteps& steps) { steps.place_in = steps.place_out = aliased; })},
      {"bkt.last_element_dropped", "BUCKET-050", "the last element of a bucket is not reduced",
       "a length counted from 0: RED-08", one("mlp", "own", 3), one("mlp", "own", 1),
       "alone, what was not reduced is the mean", with([](ReducerSteps& steps) {
         steps.exchanged = [](Buffer bucket, int) {
           --bucket.count;
           return bucket;
         };
       })},
      {"bkt.gap_as_data", "BUCKET-050", "gradients are copied in as if there were no gaps, and gaps are read as data",
       "BKT-10: places that a plan has aligned", one("aligned", "own", 3), one("mlp", "own", 3), "there are no gaps",
       with([](ReducerSteps& steps) { steps.place_in = without_gaps; })},
      {"ovl.no_wait", "BUCKET-050", "the last reduction of a pass is not waited for", "OVL-03", one("mlp", "views", 3),
       one("mlp", "views", 1), "alone, what was not reduced is the mean", with(no_wait)},
      racing({"ovl.early_reuse", "BUCKET-050",
              "the memory that a reduction reads is written again while it is under way", "OVL-08",
              one("mlp", "views", 3), at_reducer("starts_in_plan_order", "limit=flat,passes=1", 2),
              "numbers are not looked at", with(early_reuse)}),
      {"red.divided_twice", "BUCKET-050", "averages are divided by the ranks once more", "RED-04",
       one("mlp", "views", 2), one("mlp", "views", 1), "there is one rank", scaling([](const Scaling& scaling) {
         Divisors divisors = bucketing::divisors_of(scaling);
         divisors.after *= scaling.ranks;
         return divisors;
       })},
      {"red.never_divided", "BUCKET-050", "gradients are added and not divided", "RED-01", one("mlp", "own", 2),
       one("mlp", "own", 1), "alone, the sum is the mean",
       scaling([](const Scaling&) { return Divisors{.op = comm::ReduceOp::sum}; })},
  };
}

std::vector<Mutant> passes() {
  const auto accumulation = [](const char* passes, const char* memory, int world) {
    return at_reducer("accumulation", std::string("passes=") + passes + ",memory=" + memory, world);
  };
  const auto rebuilt = [](const char* order, const char* passes, int world) {
    return at_reducer("rebuilt", std::string("order=") + order + ",passes=" + passes, world);
  };
  return {
      {"bkt.reduce_first_mb", "BUCKET-051", "reductions begin in the first pass of a step", "BKT-17",
       accumulation("2", "views", 2), accumulation("1", "views", 2), "a step has one pass",
       with([](ReducerSteps& steps) { steps.reduces = [](bool, int passes_before) { return passes_before == 0; }; })},
      {"bkt.learned_count", "BUCKET-051", "every step is taken to have as many passes as the first one", "BKT-18",
       accumulation("213", "views", 2), accumulation("2", "views", 2), "they have", with(learned_count)},
      {"red.twice", "BUCKET-051", "gradients are divided by the number of passes too", "RED-10",
       accumulation("2", "own", 3), accumulation("1", "own", 3), "a step has one pass",
       scaling([](const Scaling& scaling) {
         Divisors divisors = bucketing::divisors_of(scaling);
         divisors.after *= scaling.passes;
         return divisors;
       })},
      {"bkt.rebuild_loses", "BUCKET-052", "what was accumulated is lost when buckets are rebuilt", "BKT-03",
       rebuilt("same", "2", 2), rebuilt("same", "1", 2), "nothing was accumulated then",
       with([](ReducerSteps& steps) { steps.carries = [](int) { return false; }; })},
      {"bkt.stale_rebuilt_order", "BUCKET-052", "each rank rebuilds its buckets in its own order", "BKT-01",
       rebuilt("differs", "1", 3), rebuilt("same", "1", 3), "all ranks have the same", with([](ReducerSteps& steps) {
         steps.agree_on_order = [](Communicator& group, std::span<std::int64_t> order, comm::Timeout timeout) {
           std::vector<std::int64_t> of_rank_0(order.begin(), order.end());
           bucketing::take_order_of_rank_0(group, of_rank_0, timeout);
           order.front() = of_rank_0.front();
         };
       })},
  };
}

std::vector<Mutant> unused() {
  const auto lacking = [](const char* check, const char* what, const char* memory, int world) {
    return at_reducer(check, std::string("lacking=") + what + ",memory=" + memory, world);
  };
  const char* all_there = "every rank has every gradient";
  return {
      {"bkt.skip_none", "BUCKET-053", "gradients that a rank lacks are left out of its buckets, which are shorter",
       "BKT-05", lacking("unused", "one_rank", "views", 2), lacking("unused", "nothing", "views", 2), all_there,
       with(skip_none)},
      {"bkt.unused_left_as_it_was", "BUCKET-053",
       "the place of a gradient that a rank lacks keeps the last step's mean", "BKT-05: a slot that nobody writes",
       lacking("unused", "one_rank", "own", 2), lacking("unused", "nothing", "own", 2), all_there,
       with([](ReducerSteps& steps) { steps.mark_unused = [](bucketing::BucketMemory&, Buffer) {}; })},
      {"bkt.unused_waits", "BUCKET-053", "a rank does not start the bucket of a gradient that it lacks",
       "DDP without find_unused_parameters", lacking("unused", "in_turn", "views", 3),
       lacking("unused", "nothing", "views", 3), all_there, with(unused_waits)},
      {"bkt.zero_unused", "BUCKET-054", "a gradient that no rank has is there, and zero", "BKT-06",
       lacking("absent", "all_ranks", "views", 2), lacking("absent", "one_rank", "views", 2), "each is some rank's",
       with([](ReducerSteps& steps) { steps.is_produced = [](int) { return true; }; })},
  };
}

std::vector<Mutant> additions() {
  const std::string same_sum = "two numbers have the same sum in either order";
  const auto join = [](const char* rows, const char* divisor, int world) {
    return at_reducer("join", std::string("rows=") + rows + ",divisor=" + divisor, world);
  };
  return {
      {"ovl.random_race", "BUCKET-055", "some reductions add from the last rank down", "OVL-07",
       at_reducer("same_bits", "", 3), at_reducer("same_bits", "", 2), same_sum, with(random_race)},
      {"bkt.fused_adds_otherwise", "BUCKET-056", "buckets of several gradients are added from the last rank down",
       "BKT-14", at_reducer("fused", "memory=views", 3), at_reducer("fused", "memory=views", 2), same_sum,
       with(fused_adds_otherwise)},
      {"red.join_divides_by_all", "BUCKET-057", "sums are divided by all ranks, also by those that have no rows left",
       "DDP join: divide_by_initial_world_size", join("uneven", "present_ranks", 2), join("even", "present_ranks", 2),
       "all have rows to the end", scaling([](const Scaling& scaling) {
         Scaling of_all = scaling;
         of_all.present = 0;
         return bucketing::divisors_of(of_all);
       })},
  };
}

std::vector<Mutant> starting() {
  const auto limit = [](const char* check, const char* limit, int world) {
    return at_reducer(check, std::string("limit=") + limit, world);
  };
  const auto order = [](const char* limit, int world) {
    return at_reducer("starts_in_plan_order", std::string("limit=") + limit + ",passes=1", world);
  };
  return {
      {"bkt.set_order", "BUCKET-058", "each rank starts its buckets in an order of its own", "BKT-16",
       order("buckets", 2), order("flat", 2), "there is one bucket", with([](ReducerSteps& steps) {
         steps.order = [](const Plan& plan, const Communicator& group) {
           std::vector<int> own = bucketing::order_of(plan, group);
           if (!own.empty()) std::ranges::rotate(own, own.begin() + group.rank() % static_cast<int>(own.size()));
           return own;
         };
       })},
      {"ovl.serialise", "BUCKET-059", "no reduction is started before the pass is over", "OVL-05",
       limit("overlaps", "buckets", 2), limit("overlaps", "flat", 2), "the only bucket is there when the pass is over",
       with([](ReducerSteps& steps) { steps.may_start = [](const Waiting&) { return false; }; })},
      {"ovl.extra_wait", "BUCKET-059", "a reduction but the first of a pass is waited for when it is started", "OVL-06",
       limit("overlaps", "buckets", 2), limit("overlaps", "flat", 2), "there is one", with(extra_wait)},
      racing({"ovl.before_the_producer", "BUCKET-060",
              "a bucket is started when its last gradient is about to be written", "OVL-01",
              limit("starts_when_written", "buckets", 2), limit("starts_when_written", "each", 2),
              "each gradient has a bucket of its own", with([](ReducerSteps& steps) {
                steps.may_start = [](const Waiting& bucket) { return bucket.missing <= (bucket.members > 1 ? 1 : 0); };
              })}),
      racing({"ovl.wait_one_producer", "BUCKET-060", "a bucket is started when its first gradient is there", "OVL-02",
              limit("starts_when_written", "flat", 2), limit("starts_when_written", "each", 3),
              "each gradient has a bucket of its own", with([](ReducerSteps& steps) {
                steps.may_start = [](const Waiting& bucket) { return bucket.missing < bucket.members; };
              })}),
      {"ovl.broadcast_before_init", "BUCKET-086", "initial values are broadcast when the reducer is made", "OVL-10",
       at_reducer("initial_values", "given=after", 2), at_reducer("initial_values", "given=before", 2),
       "they are given by then",
       with([](ReducerSteps& steps) { steps.broadcasts_initial = [](bool first_pass) { return !first_pass; }; })},
      {"bkt.buffers_each_mb", "BUCKET-061", "buffers are broadcast in every pass", "BKT-20",
       at_reducer("buffers", "passes=3", 2), at_reducer("buffers", "passes=1", 2), "a step has one",
       with([](ReducerSteps& steps) { steps.broadcasts_buffers = [](bool) { return true; }; })},
  };
}

// What is divided before is taken for what must be divided after.
Divisors both_halves_alike(const Scaling& scaling) {
  Divisors divisors = bucketing::divisors_of(scaling);
  if (scaling.split) divisors.after = divisors.before;
  return divisors;
}

std::vector<Mutant> numbers() {
  const auto division = [](const char* kind, int world) {
    return at_reducer("division", std::string("division=") + kind + ",memory=views", world);
  };
  const auto half = [](const char* values, int world) {
    return at_reducer("half_stays_finite", std::string("dtype=f16,values=") + values, world);
  };
  const auto wires = [](int buffers, int buckets) {
    return at_reducer("wire_buffers", "buffers=" + std::to_string(buffers) + ",buckets=" + std::to_string(buckets), 2);
  };
  return {
      {"red.avg_factor", "BUCKET-062", "the sum is divided by what was already divided by before", "RED-02",
       division("before", 3), division("split", 4), "both parts are 2", scaling(both_halves_alike)},
      {"red.expert_unscaled", "BUCKET-085", "the gradients of an expert are divided by the ranks that hold it",
       "RED-03", at_reducer("experts", "experts=2", 4), at_reducer("experts", "experts=1", 4),
       "every rank holds the expert", scaling([](const Scaling& scaling) {
         Scaling of_group = scaling;
         of_group.split.reset();
         return bucketing::divisors_of(of_group);
       })},
      {"red.scale_sum_loss", "BUCKET-063", "sums are divided by the ranks", "RED-11",
       at_reducer("sum", "result=sum", 2), at_reducer("sum", "result=average", 2), "they are to be",
       scaling([](const Scaling& scaling) {
         Scaling average = scaling;
         average.average = true;
         return bucketing::divisors_of(average);
       })},
      {"red.half_sum_then_divide", "BUCKET-064", "16-bit numbers are added and then divided", "RED-05",
       half("large", 4), half("usual", 4), "their sum is far from the largest number",
       scaling([](const Scaling& scaling) {
         return Divisors{.op = comm::ReduceOp::sum, .after = static_cast<double>(scaling.ranks)};
       })},
      racing({"ovl.pingpong_reset", "BUCKET-065", "every compressed bucket begins with the first buffer, in use or not",
              "OVL-04", wires(3, 3), wires(3, 1), "there is one bucket", with([](ReducerSteps& steps) {
                steps.wire_buffer = [](int, std::int64_t, int) { return 0; };
                steps.waits_for_wire = [](int, int) { return false; };
              })}),
      racing({"ovl.too_few_buffers", "BUCKET-065", "nobody waits for a buffer that is in use", "OVL-09", wires(2, 3),
              wires(3, 3), "there are enough",
              with([](ReducerSteps& steps) { steps.waits_for_wire = [](int, int) { return false; }; })}),
  };
}

std::vector<Mutant> refused() {
  const auto plans = [](const char* differs) {
    return at_reducer("other_plans", std::string("differs=") + differs, 2);
  };
  const auto refusal = [](const char* what) { return at_reducer("refusals", std::string("what=") + what, 3); };
  const auto late = [](const char* what) { return at_reducer("late", std::string("late=") + what, 3); };
  return {
      {"bkt.plans_not_compared", "BUCKET-066", "plans are not compared", "BKT-02", plans("limits"), plans("nothing"),
       "they are the same", with([](ReducerSteps& steps) { steps.agree = [](auto&&...) {}; })},
      {"bkt.dtype_mixed", "BUCKET-067", "the type of a gradient is not looked at", "a gradient of mixed precision",
       refusal("other_type"), refusal("nothing"), "it is the parameter's",
       with([](ReducerSteps& steps) { steps.fits = [](bool same_count, bool) { return same_count; }; })},
      {"bkt.late_taken_as_it_is", "BUCKET-068", "a pass may end without some gradients",
       "BKT-07: buckets that are never full", late("bias"), late("nothing"), "all are there",
       with([](ReducerSteps& steps) { steps.may_end = [](int) { return true; }; })},
  };
}

// The first number that is above the largest: what is no number is not above anything.
std::optional<std::int64_t> first_above(comm::ConstBuffer values, double largest) {
  const auto* const all = static_cast<const float*>(values.data);
  for (std::int64_t i = 0; i < values.count; ++i)
    if (std::abs(all[i]) > largest) return i;
  return std::nullopt;
}

// The sum in rank order, rounded to bf16 after each addition.
comm::Work add_in_bf16(Communicator& group, Buffer values, comm::ReduceOp op) {
  if (values.dtype != comm::DType::f32) return start_in_place(group, values, op);
  const auto count = static_cast<std::size_t>(values.count);
  std::vector<float> all(count * static_cast<std::size_t>(group.size()));
  group.all_gather(values, {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::f32});
  auto* to = static_cast<float*>(values.data);
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = all[i];
    for (std::size_t at_reducer = i + count; at_reducer < all.size(); at_reducer += count)
      to[i] = comm::to_float(comm::to_bfloat16(to[i] + all[at_reducer]));
  }
  return {};
}

std::vector<Mutant> memory() {
  const auto of = [](const char* check, const std::string& parameters) { return at_reducer(check, parameters, 3); };
  return {
      {"bkt.shared_memory_taken", "BUCKET-100", "gradients that share memory are reduced in it",
       "a view that is handed in beside its base", of("shared_memory", "shared=end"),
       of("shared_memory", "shared=none"), "they share none",
       with([](ReducerSteps& steps) { steps.takes_memory = [](bool) { return true; }; })},
      {"bkt.copied_for_nothing", "BUCKET-101", "a gradient that has a bucket of its own is copied to it and back",
       "torch.distributed's flattening of a list of one", of("in_place", "limit=each,lacking=nothing"),
       of("in_place", "limit=flat,lacking=nothing"), "none has one",
       with([](ReducerSteps& steps) { steps.reduces_in_place = [](int) { return false; }; })},
      {"bkt.nan_is_not_above", "BUCKET-102",
       "numbers that are above the largest are looked for, and not those that are none",
       "a comparison with what is no number is false", of("finite", "what=nan,memory=views"),
       of("finite", "what=infinity,memory=views"), "an infinity is above all",
       with([](ReducerSteps& steps) { steps.outside = first_above; })},
      {"bkt.first_number_alone_looked_at", "BUCKET-102", "of each gradient the first number alone is looked at",
       "a pointer in place of a range", of("finite", "what=infinity,memory=own"),
       of("finite", "what=nothing,memory=own"), "all are finite", with([](ReducerSteps& steps) {
         steps.outside = [](comm::ConstBuffer values, double largest) {
           values.count = std::min<std::int64_t>(values.count, 1);
           return bucketing::first_outside(values, largest);
         };
       })},
      {"bkt.hook_gets_one_less", "BUCKET-105", "a caller's exchange is given all but the last of a bucket's values",
       "a length counted from 0: RED-08", of("hook", "hook=largest,memory=views"),
       of("hook", "hook=nothing,memory=views"), "nothing is exchanged", with([](ReducerSteps& steps) {
         steps.exchanged = [](Buffer bucket, int) {
           --bucket.count;
           return bucket;
         };
       })},
      {"red.rounded_each_addition", "BUCKET-106", "what travels as f32 is added in bf16", "RED-05",
       of("wide", "wire=f32"), of("wide", "wire=own"), "nothing travels as f32",
       with([](ReducerSteps& steps) { steps.start = add_in_bf16; })},
      {"ovl.told_at_the_start", "BUCKET-103", "who asks is told of a bucket when it is started",
       "OVL-01: a reader that waits for nothing", of("told", "limit=flat,memory=own"),
       at_reducer("told", "limit=flat,memory=own", 1), "alone, a sum is there from the start",
       with([](ReducerSteps& steps) { steps.tells = [](bool is_reduced) { return !is_reduced; }; })},
      {"bkt.delayed_first", "BUCKET-107", "the last bucket is started as soon as it is complete, ahead of all others",
       "a queue of what is complete", of("left_alone", "delayed=first_ready"),
       at_reducer("starts_in_plan_order", "limit=flat,passes=1", 3), "there is one bucket",
       with([](ReducerSteps& steps) {
         steps.order = [](const Plan& plan, const Communicator& group) {
           std::vector<int> order = bucketing::order_of(plan, group);
           if (!order.empty()) std::ranges::rotate(order, order.end() - 1);
           return order;
         };
       })},
      {"red.neighbours_part", "BUCKET-104", "each rank takes the next one's part for its own",
       "a rank of another group: RED-01", of("shared_out", "division=sum"), at_reducer("shared_out", "division=sum", 1),
       "there is one part",
       with([](ReducerSteps& steps) { steps.part_of_rank = [](int rank, int ranks) { return (rank + 1) % ranks; }; })},
  };
}

std::vector<Mutant> instances() {
  const auto of = [](int instances, int world) {
    return at_reducer("instances", "instances=" + std::to_string(instances) + ",division=collective", world);
  };
  const auto lazy = [](const char* memory, const char* lacking) {
    return at_reducer("lazy", std::string("memory=") + memory + ",lacking=" + lacking, 2);
  };
  return {
      {"bkt.instances_apart", "BUCKET-213", "each instance has a mean of its own",
       "a distributed optimizer that takes its group for the data ranks", of(2, 4), of(1, 4), "there is one instance",
       with([](ReducerSteps& steps) { steps.inter_instance = [](Buffer, Buffer) { return Buffer{}; }; })},
      {"bkt.whole_bucket_across", "BUCKET-214", "buckets are reduced across instances as a whole",
       "the bucket in place of the local shard", of(2, 4), of(2, 2), "alone in an instance, a rank has the whole",
       with([](ReducerSteps& steps) { steps.inter_instance = [](Buffer, Buffer whole) { return whole; }; })},
      {"bkt.memory_kept", "BUCKET-215", "memory that is taken when it is needed is not given back",
       "a pool that only grows", lazy("lazy", "nothing"), lazy("kept", "nothing"), "it is to be kept",
       with([](ReducerSteps& steps) { steps.gives_back = [](bool) { return false; }; })},
      {"bkt.memory_given_back_early", "BUCKET-215",
       "a bucket's memory is given back although it has the only result of a gradient", "BKT-05", lazy("lazy", "one"),
       lazy("lazy", "nothing"), "every rank has every gradient",
       with([](ReducerSteps& steps) { steps.gives_back = [](bool) { return true; }; })},
  };
}

std::vector<Mutant> sparse() {
  const auto sum = [](const char* entries, int world, const char* result = "average") {
    return "bucketing.sparse.is_the_dense_sum[entries=" + std::string(entries) + ",result=" + result +
           ",world=" + std::to_string(world) + "]";
  };
  const auto of = [](const std::string& check, const std::string& parameters) {
    return "bucketing.sparse." + check + "[" + parameters + ",world=3]";
  };
  return {
      {"bkt.sparse_last_of_repeated", "BUCKET-210", "of rows of one index and rank the last one counts",
       "a row that is put in place of one that is there", sum("repeated", 2), sum("even", 2), "no index comes twice",
       with([](ReducerSteps& steps) { steps.sparse.adds_duplicates = [] { return false; }; })},
      {"bkt.sparse_as_many_as_own", "BUCKET-210", "every rank is taken to have as many rows as this one",
       "gathering that asks nobody for a length", sum("uneven", 3), sum("even", 3), "all have",
       with([](ReducerSteps& steps) { steps.sparse.rows_of = [](std::int64_t, std::int64_t own) { return own; }; })},
      {"red.sparse_never_divided", "BUCKET-210", "sparse gradients are added and not divided", "RED-01", sum("even", 2),
       sum("even", 2, "sum"), "they are to be added",
       with([](ReducerSteps& steps) { steps.sparse.divisor = [](double) { return 1.0; }; })},
      {"bkt.sparse_padded_to_a_power", "BUCKET-211", "lists of rows are padded to a power of two",
       "buffers that grow by doubling", of("travels", "entries=even"), of("travels", "entries=none"), "there are none",
       with([](ReducerSteps& steps) {
         steps.sparse.padded = [](std::int64_t most) {
           return most == 0 ? most : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));
         };
       })},
      {"bkt.sparse_row_beyond", "BUCKET-212", "rows that a gradient has not are taken", "an index that nobody looks at",
       of("refuses_rows", "what=beyond"), of("refuses_rows", "what=nothing"), "it has them",
       with([](ReducerSteps& steps) { steps.sparse.takes = [](bool) { return true; }; })},
  };
}

// Of models that LibTorch trains.
MakeSteps training_with(std::function<void(ReducerSteps&)> change) {
  return [change = std::move(change)] {
    training::RunSettings steps;
    change(steps.reducer);
    return suite::Steps(std::move(steps));
  };
}

// The columns of each P from the given one on are zeros.
MakeSteps without_directions(std::int64_t from) {
  return [from] {
    training::RunSettings steps;
    steps.power_sgd.orthonormalise_narrow = [from](std::span<double> matrix, std::int64_t columns, double epsilon) {
      bucketing::orthonormalise(matrix, columns, epsilon);
      for (std::size_t at_reducer = 0; at_reducer < matrix.size(); ++at_reducer)
        if (static_cast<std::int64_t>(at_reducer) % columns >= from) matrix[at_reducer] = 0;
    };
    return suite::Steps(std::move(steps));
  };
}

void sum_where_compressed(ReducerSteps& steps) {
  steps.start = [](Communicator& group, Buffer values, comm::ReduceOp op) {
    const bool compressed = values.dtype == comm::DType::f16 || values.dtype == comm::DType::bf16;
    return start_in_place(group, values, compressed ? comm::ReduceOp::sum : op);
  };
}

void last_bucket_alone(ReducerSteps& steps) {
  steps.order = [](const Plan& plan, const Communicator&) {
    return std::vector{static_cast<int>(plan.buckets.size()) - 1};
  };
}

std::vector<Mutant> of_models() {
  const auto at_reducer = [](const char* check, const std::string& parameters, int world) {
    return std::string("bucketing.training.") + check + "[" + parameters + ",world=" + std::to_string(world) + "]";
  };
  const auto buckets = [&](const char* buckets) {
    return at_reducer("single_device", std::string("model=mlp,buckets=") + buckets + ",accumulation=1", 2);
  };
  const auto overlapped = [&](const char* micro_batches) {
    return at_reducer("overlapped", std::string("model=gpt,micro_batches=") + micro_batches, 2);
  };
  const auto rows = [&](const char* rows) {
    return at_reducer("uneven_rows", std::string("rows=") + rows + ",divisor=present_ranks,accumulation=1", 2);
  };
  const auto statistics = [&](const char* statistics) {
    return at_reducer("statistics", std::string("statistics=") + statistics + ",reduced=afterwards,accumulation=1", 2);
  };
  const auto hooked = [&](const char* compression, int world = 2) {
    return at_reducer("hooked", std::string("model=perceptron,compression=") + compression + ",reduced=afterwards",
                      world);
  };
  const auto models = [&](const char* buckets) {
    return at_reducer("models", std::string("model=gpt,buckets=") + buckets, 2);
  };
  return {
      {"bkt.first_bucket_alone", "BUCKET-070", "only the first bucket is reduced", "BKT-19: a loop over one bucket",
       buckets("several"), buckets("flat"), "there is one", training_with([](ReducerSteps& steps) {
         steps.order = [](const Plan&, const Communicator&) { return std::vector{0}; };
       })},
      {"red.compressed_sum", "BUCKET-080", "compressed gradients are added and not divided",
       "DDP fp16_compress_hook: the hook divides, not the reducer",
       at_reducer("compressed", "model=mlp,dtype=bf16,accumulation=1", 2),
       at_reducer("compressed", "model=mlp,dtype=bf16,accumulation=1", 1), "alone, the sum is the mean",
       training_with(sum_where_compressed)},
      {"bkt.ready_at_first_use", "BUCKET-081",
       "a gradient counts as ready the first time in a pass, also where more is added to it", "BKT-18", overlapped("2"),
       overlapped("1"), "nothing is added after the first time",
       training_with([](ReducerSteps& steps) { steps.comes_again = [](int, int) { return false; }; })},
      {"bkt.joined_with_the_last_mean", "BUCKET-082",
       "a rank without rows takes part with what its buckets had in the step before",
       "torch.distributed.algorithms.Join", rows("of_rank_0"), rows("even"), "all ranks have rows",
       training_with([](ReducerSteps& steps) { steps.mark_unused = [](bucketing::BucketMemory&, Buffer) {}; })},
      {"bkt.statistics_stay", "BUCKET-083", "running statistics are never broadcast", "DDP broadcast_buffers",
       statistics("broadcast"), statistics("own"), "they are not to be",
       training_with([](ReducerSteps& steps) { steps.broadcasts_buffers = [](bool) { return false; }; })},
      {"bkt.last_number_of_a_hooks", "BUCKET-209", "a hook is given all but the last of a bucket's numbers",
       "a length counted from 0: RED-08", hooked("int8"), hooked("int8", 1), "alone, it is its own mean",
       training_with([](ReducerSteps& steps) {
         steps.exchanged = [](Buffer bucket, int) {
           --bucket.count;
           return bucket;
         };
       })},
      {"bkt.products_of_nothing", "BUCKET-209", "what ranks send of a gradient is zeros, and all is left over",
       "columns that are all taken for dependent ones", hooked("powersgd"), hooked("int8"), "there are no products",
       without_directions(0)},
      {"bkt.one_direction_less", "BUCKET-209", "products have a direction less than they are to have",
       "a loop that ends one column early", hooked("powersgd"), hooked("int8"), "there are no products",
       without_directions(1)},
      {"bkt.last_bucket_alone", "BUCKET-084", "only the last bucket is reduced", "BKT-19", models("several"),
       models("flat"), "there is one", training_with(last_bucket_alone)},
  };
}

}  // namespace

std::vector<Mutant> reducer_mutants() {
  std::vector<Mutant> all = places();
  for (const auto kind : {passes, unused, additions, starting, numbers, refused, memory, instances, sparse, of_models})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
