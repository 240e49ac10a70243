// lib/plumbline/libplumbline_benchmarks.so: all benchmarks, opened by the command `bench` and by its workers.
#include "benchmarks/allreduce_fusion.hpp"
#include "benchmarks/canary.hpp"
#include "benchmarks/collectives.hpp"
#include "benchmarks/gossip_throughput.hpp"
#include "benchmarks/pipeline_bubble.hpp"
#include "benchmarks/scaler.hpp"
#include "harness/subject/backend.hpp"

PLUMBLINE_EXPORT const plumbline::bench::Module* plumbline_benchmarks() {
  static const plumbline::bench::Module module{[] {
                                                 plumbline::bench::Registry registry;
                                                 plumbline::bench::add_collectives(registry);
                                                 plumbline::bench::add_patterns(registry);
                                                 plumbline::bench::add_allreduce_fusion(registry);
                                                 plumbline::bench::add_gossip_throughput(registry);
                                                 plumbline::bench::add_pipeline_bubble(registry);
                                                 plumbline::bench::add_scaler(registry);
                                                 plumbline::bench::add_canary(registry);
                                                 return registry;
                                               }(),
                                               plumbline::bench::measure};
  return &module;
}
