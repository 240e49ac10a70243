// What planning gradient buckets costs: ninja bucket_planning && build/tests/bucket_planning
//
// Model   Lists of 1,000 to 1,000,000 gradients of one type and of five in turn, sizes as of a transformer's layers.
//         Each rule plans the whole list; a figure is the least CPU time of several rounds on one thread, memory for
//         the plan included.
//         Before the rows each plan is checked.
// Verdict The last line holds a million gradients by size against its aim.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "reference/bucketing/check_plan.hpp"
#include "reference/bucketing/plan.hpp"

namespace {

using namespace plumbline::bucketing;
using plumbline::comm::DType;

const std::vector<std::int64_t> kLimits{std::int64_t{1} << 20, std::int64_t{25} << 20};

std::vector<Gradient> gradients_of(int count, bool several) {
  const std::vector<std::int64_t> sizes{2359296, 768, 768, 1769472, 2304, 589824, 768, 3072};
  const std::vector<DType> types{DType::f32, DType::bf16, DType::f16, DType::f64, DType::f32};
  std::vector<Gradient> gradients(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = {.elements = sizes[i % sizes.size()], .dtype = several ? types[i % types.size()] : DType::f32};
  return gradients;
}

volatile std::size_t sink = 0;  // what is computed is used

// Of this thread, in milliseconds.
double cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Milliseconds of the quickest of a number of calls that take about half a second.
template <class Call>
double milliseconds(Call call) {
  double least = std::numeric_limits<double>::infinity();
  const double end = cpu_time() + 500;
  for (int round = 0; round < 3 || cpu_time() < end; ++round) {
    const double start = cpu_time();
    sink = call().buckets.size();
    least = std::min(least, cpu_time() - start);
  }
  return least;
}

double measured_by_size(const std::vector<Gradient>& gradients) {
  return milliseconds([&] { return plan_by_size(gradients, kLimits); });
}

void require_right(const std::vector<Gradient>& gradients) {
  if (is_right(check_plan(plan_by_size(gradients, kLimits), gradients, {.limits = kLimits}))) return;
  std::fprintf(stderr, "bucket_planning: a plan of %zu gradients is not right\n", gradients.size());
  std::exit(1);
}

void print_row(int count, bool several) {
  const std::vector<Gradient> gradients = gradients_of(count, several);
  require_right(gradients);
  std::vector<int> ready(gradients.size());
  for (std::size_t i = 0; i < ready.size(); ++i) ready[i] = static_cast<int>(ready.size() - 1 - i);
  std::printf("%9d  %5d  %9.4f  %9.4f  %9.4f  %9.4f\n", count, several ? 5 : 1, measured_by_size(gradients),
              milliseconds([&] { return plan_by_size(gradients, kLimits, ready); }),
              milliseconds([&] { return plan_flat(gradients); }),
              milliseconds([&] { return plan_as_megatron(gradients, {.bucket_elements = 40'000'000}); }));
}

}  // namespace

int main() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD,
          1 << 30);  // what is freed is kept: fresh pages are the system's cost, and only the first plan's
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
  std::printf("gradients  types  by size, ms  in another order  flat  Megatron-LM\n");
  for (const int count : {1'000, 10'000, 100'000, 1'000'000})
    for (const bool several : {false, true}) print_row(count, several);
  constexpr double aim = 10;
  const double figure = measured_by_size(gradients_of(1'000'000, false));
  std::printf("a million gradients by size: %.3f ms, aim %.0f ms: %s\n", figure, aim, figure <= aim ? "met" : "MISSED");
  return figure <= aim ? 0 : 1;
}
