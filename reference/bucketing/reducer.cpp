// The passes of a step, and what the caller sees. Beside it are the life of a bucket (bucket_life.cpp), which gradients
// there are (gradient_presence.cpp), where they lie (gradient_sources.cpp), what ranks exchange when a pass begins
// (pass_opening.cpp), and what is rejected (reducer_setup.cpp, call_checks.cpp).
#include "reference/bucketing/reducer.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/detail/bucket_life.hpp"
#include "reference/bucketing/detail/bucket_store.hpp"
#include "reference/bucketing/detail/call_checks.hpp"
#include "reference/bucketing/detail/gradient_presence.hpp"
#include "reference/bucketing/detail/gradient_sources.hpp"
#include "reference/bucketing/detail/pass_opening.hpp"
#include "reference/bucketing/detail/reducer_setup.hpp"
#include "reference/bucketing/detail/used_gradients.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using comm::Buffer;
using comm::Communicator;

ReducerSetup checked(ReducerSetup setup) {
  setup.memory = setup.options.place ? setup.options.place : host_memory();
  setup.check();
  return setup;
}

}  // namespace

class Reducer::Impl {
 public:
  Impl(ReducerSetup setup, Plan plan) : setup_(checked(std::move(setup))), buckets_(setup_, std::move(plan)) {}

  void begin(const Pass& pass);
  void ready(int gradient, const std::optional<Buffer>& values, const SparseRows* rows = nullptr);
  void mark_unused(int gradient);
  const Outcome& finish();
  void clear();
  bool join_step();
  int join(const std::function<void(const Outcome&)>& after_each);

  [[nodiscard]] Buffer view(int gradient) const;
  [[nodiscard]] SparseRows rows(int gradient) const;
  [[nodiscard]] Buffer results(int bucket) const;
  void use(Plan plan);
  [[nodiscard]] std::int64_t bucket_memory() const { return buckets_.bytes(); }
  [[nodiscard]] const Plan& plan() const { return buckets_.plan(); }
  [[nodiscard]] bool has_rebuilt() const { return opening_.has_rebuilt(); }

 private:
  void open(bool synchronises);
  void mark_lacking(int gradient);
  void finish_gradients();
  void start_used();
  void require_between_passes(const char* operation) const;
  [[nodiscard]] std::string at(const char* operation) const { return setup_.at(operation); }
  [[nodiscard]] std::string name(int gradient) const { return setup_.name(gradient); }
  [[nodiscard]] bool is_sparse(int gradient) const { return setup_.gradient(gradient).sparse; }

  ReducerSetup setup_;
  BucketStore buckets_;
  Outcome outcome_;
  CallChecks checks_{setup_, buckets_};
  GradientPresence presence_{setup_};
  GradientSources sources_{setup_, buckets_};
  PassOpening opening_{setup_, buckets_, presence_, outcome_};
  BucketLife life_{setup_, buckets_, presence_, sources_, outcome_};
  UsedGradients used_{setup_};
  bool in_pass_ = false, reduced_ = false;
};

// ---- the passes of a step ----

void Reducer::Impl::begin(const Pass& pass) {
  require_between_passes("begin");
  if (reduced_)
    throw StateError(at("begin") +
                     ": the gradients of this step have been reduced; clear() ends a step, and only its last pass may "
                     "synchronise");
  for (const int gradient : pass.unused) checks_.check_unused(gradient, "begin");
  outcome_ = {};
  opening_.share_initial();
  if (pass.synchronise && setup_.options.join) outcome_.present = opening_.count_present(true);
  open(pass.synchronise);
  for (const int gradient : pass.unused) mark_lacking(gradient);
  for (int i = 0; i < presence_.size(); ++i)
    if (buckets_.bucket_of(i) >= 0 && presence_.is_known_unused(i)) mark_lacking(i);
}

void Reducer::Impl::ready(int gradient, const std::optional<Buffer>& values, const SparseRows* rows) {
  checks_.check_known(gradient, "ready");
  if (!in_pass_)
    throw StateError(at("ready") + fmt::format(": gradient '{}' is ready, and no pass is under way", name(gradient)));
  if (presence_.is_lacking(gradient))
    throw StateError(at("ready") + fmt::format(": gradient '{}' is ready, which {} unused", name(gradient),
                                               setup_.options.unused == Unused::static_graph ? "in the first pass was"
                                                                                             : "was said to be"));
  checks_.check_kind(gradient, rows != nullptr);
  if (values) checks_.check_values(gradient, *values);
  if (presence_.came(gradient) && !presence_.comes_again(gradient))
    throw StateError(at("ready") + fmt::format(": gradient '{}' was ready before in this pass", name(gradient)));
  if (rows != nullptr)
    sources_.take_rows(gradient, *rows);
  else
    outcome_.copied_in += sources_.take(gradient, values);
  presence_.come(gradient);
  if (!presence_.comes_again(gradient) && !presence_.is_ready(gradient)) life_.mark_ready(gradient);
}

void Reducer::Impl::mark_unused(int gradient) {
  checks_.check_unused(gradient, "lack");
  if (!in_pass_)
    throw StateError(at("lack") +
                     fmt::format(": gradient '{}' is marked unused, and no pass is under way", name(gradient)));
  if (presence_.came(gradient))
    throw StateError(at("lack") + fmt::format(": gradient '{}' was ready before in this pass", name(gradient)));
  mark_lacking(gradient);
}

const Outcome& Reducer::Impl::finish() {
  if (!in_pass_) throw StateError(at("finish") + ": no pass is under way");
  if (outcome_.synchronised) {
    finish_gradients();
    life_.start_all();
    start_used();
    life_.finish_all();
    outcome_.produced = used_.finish(buckets_);
    reduced_ = true;
  }
  presence_.end_pass();
  in_pass_ = false;
  return outcome_;
}

void Reducer::Impl::clear() {
  require_between_passes("clear");
  presence_.clear();
  sources_.clear();
  for (int bucket = 0; setup_.options.lazy && bucket < buckets_.size(); ++bucket) buckets_.give_back(bucket);
  reduced_ = false;
}

bool Reducer::Impl::join_step() {
  if (!setup_.options.join) throw StateError(at("join") + ": the reducer was made without the option to join");
  clear();
  outcome_ = {};
  opening_.share_initial();
  outcome_.present = opening_.count_present(false);
  if (outcome_.present == 0) return false;
  open(true);
  for (int i = 0; i < presence_.size(); ++i)
    if (buckets_.bucket_of(i) >= 0) mark_lacking(i);
  finish();
  return true;
}

int Reducer::Impl::join(const std::function<void(const Outcome&)>& after_each) {
  int steps = 0;
  for (; join_step(); ++steps)
    if (after_each) after_each(outcome_);
  return steps;
}

void Reducer::Impl::open(bool synchronises) {
  if (synchronises) opening_.agree();
  presence_.begin_pass();
  life_.begin_pass();
  outcome_.most_memory = bucket_memory();
  outcome_.synchronised = synchronises;
  in_pass_ = true;
}

void Reducer::Impl::mark_lacking(int gradient) {
  if (presence_.is_ready(gradient)) return;  // said twice
  presence_.mark_lacking(gradient);
  life_.mark_ready(gradient);
}

void Reducer::Impl::finish_gradients() {
  std::vector<std::string> late;
  for (int i = 0; i < presence_.size(); ++i) {
    if (buckets_.bucket_of(i) < 0 || presence_.is_ready(i)) continue;
    if (presence_.is_learning())
      life_.mark_ready(i);
    else
      late.push_back(name(i));
  }
  if (late.empty()) return;
  in_pass_ = false;
  reduced_ = true;
  throw StateError(at("finish") + fmt::format(": {} of {} gradients never got ready in this pass: {}; those that it "
                                              "does not produce must be said to be unused",
                                              late.size(), presence_.size(), ReducerSetup::listed(late)));
}

void Reducer::Impl::start_used() {
  if (!used_.exchanges()) return;
  used_.start(presence_.held());
  for (std::size_t group = 0; group < setup_.groups.size(); ++group)
    outcome_.launches.push_back({.what = Launch::What::used,
                                 .group = static_cast<int>(group),
                                 .dtype = comm::DType::i32,
                                 .elements = used_.count_in(group)});
}

void Reducer::Impl::require_between_passes(const char* operation) const {
  if (in_pass_) throw StateError(at(operation) + ": a pass is under way");
}

// ---- what the caller sees ----

Buffer Reducer::Impl::view(int gradient) const {
  checks_.check_known(gradient, "view");
  if (is_sparse(gradient))
    throw InvalidArgument(at("view") + fmt::format(": gradient '{}' is sparse; it has rows", name(gradient)));
  checks_.require_memory(buckets_.bucket_of(gradient), "view");
  return buckets_.slot_of(gradient);
}

SparseRows Reducer::Impl::rows(int gradient) const {
  checks_.check_known(gradient, "rows");
  if (!is_sparse(gradient))
    throw InvalidArgument(at("rows") + fmt::format(": gradient '{}' is dense; it has a view", name(gradient)));
  return sources_.sum_of(gradient).rows();
}

Buffer Reducer::Impl::results(int bucket) const {
  if (bucket < 0 || bucket >= buckets_.size())
    throw OutOfRange(at("results") + fmt::format(": bucket {}; there are {}", bucket, buckets_.size()));
  if (buckets_.is_sparse(bucket))
    throw InvalidArgument(at("results") + fmt::format(": bucket {} is that of '{}', which is sparse; it has rows",
                                                      bucket, name(buckets_.members_of(bucket).front().gradient)));
  checks_.require_memory(bucket, "results");
  return buckets_.own_part(bucket, buckets_.buffer_of(bucket));
}

void Reducer::Impl::use(Plan plan) {
  require_between_passes("use");
  opening_.use(std::move(plan));
}

Reducer::Reducer(std::vector<Communicator*> groups, std::vector<Gradient> gradients, Plan plan, ReducerOptions options)
    : impl_(std::make_unique<Impl>(ReducerSetup{.groups = std::move(groups),
                                                .gradients = std::move(gradients),
                                                .options = std::move(options),
                                                .memory = nullptr},
                                   std::move(plan))) {}
Reducer::~Reducer() = default;
void Reducer::begin(const Pass& pass) { impl_->begin(pass); }
void Reducer::ready(int gradient) { impl_->ready(gradient, {}); }
void Reducer::ready(int gradient, comm::Buffer values) { impl_->ready(gradient, values); }
void Reducer::ready(int gradient, const SparseRows& rows) { impl_->ready(gradient, {}, &rows); }
SparseRows Reducer::rows(int gradient) const { return impl_->rows(gradient); }
void Reducer::mark_unused(int gradient) { impl_->mark_unused(gradient); }
const Outcome& Reducer::finish() { return impl_->finish(); }
void Reducer::clear() { impl_->clear(); }
bool Reducer::join_step() { return impl_->join_step(); }
int Reducer::join(const std::function<void(const Outcome&)>& after_each) { return impl_->join(after_each); }
comm::Buffer Reducer::view(int gradient) const { return impl_->view(gradient); }
comm::Buffer Reducer::results(int bucket) const { return impl_->results(bucket); }
void Reducer::use(Plan plan) { impl_->use(std::move(plan)); }
std::int64_t Reducer::bucket_memory() const { return impl_->bucket_memory(); }
const Plan& Reducer::plan() const { return impl_->plan(); }
bool Reducer::has_rebuilt() const { return impl_->has_rebuilt(); }

}  // namespace plumbline::bucketing
