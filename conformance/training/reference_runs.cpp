#include "conformance/training/reference_runs.hpp"

#include "conformance/training/judge.hpp"
#include "conformance/training/report.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::conformance {

JudgeOptions options_of_reference(suite::Context& context) {
  const comm::Capabilities& capabilities = context.capabilities();
  return {.reduction = Reduction{.accumulator = capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg),
                                 .rank_order = capabilities.has(comm::Capability::rank_order)},
          .device = context.device()};
}

job::RunSpec judge_reference(suite::Context& context,
                             const std::function<job::RunSpec(const std::filesystem::path& folder)>& prepared) {
  return judge_reference(context, context.world(), prepared);
}

job::RunSpec judge_reference(suite::Context& context, comm::Communicator& world,
                             const std::function<job::RunSpec(const std::filesystem::path& folder)>& prepared,
                             const NamedFindings& named) {
  const std::filesystem::path scratch(context.scratch());
  if (context.rank() == 0) (void)prepared(scratch / "run");
  context.world().barrier();
  const job::RunSpec spec = job::read_run_spec(scratch / "run" / "spec.toml");
  context.training().run(spec, world, scratch / "record", {}, {});
  context.world().barrier();
  if (context.rank() != 0) return spec;
  std::vector<Finding> findings =
      judge(spec, job::TrainingRecord(spec, scratch / "record"), context.oracle(), options_of_reference(context))
          .findings;
  report(named ? named(spec, std::move(findings)) : findings);
  return spec;
}

}  // namespace plumbline::conformance
