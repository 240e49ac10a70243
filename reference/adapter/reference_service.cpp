#include "reference/adapter/reference_service.hpp"

#include <csignal>

#include <unistd.h>

#include "reference/adapter/operations.hpp"

namespace plumbline::adapter {

AdapterService reference_service() {
  // The versions whose answers are recorded in conformance/*/vectors.
  AdapterService service("plumbline reference", PLUMBLINE_VERSION,
                         {{"plumbline", PLUMBLINE_VERSION},
                          {"bluefog", "0.3.0"},
                          {"colossalai", "96780e6"},
                          {"deepspeed", "0.19.8"},
                          {"deepspeed-0.6", "0.6.3"},
                          {"fairscale", "0.4.13"},
                          {"gloo", "torch 2.13.0"},
                          {"megatron", "core 0.19.2"},
                          {"paddle", "3.3.1"},
                          {"torch", "2.13.0"}});
  add_comm_operations(service);
  add_call_operations(service);
  add_schedule_operations(service);
  add_partition_operations(service);
  add_bucketing_operations(service);
  add_reduce_operations(service);
  add_gossip_operations(service);
  add_program_operations(service);
  add_race_operations(service);
  add_schedule_check_operations(service);
  add_schedule_plan_operations(service);
  add_warmup_operations(service);
  add_slot_operations(service);
  add_execute_operations(service);
  add_send_operations(service);
  add_group_operations(service);
  add_expert_group_operations(service);
  add_slowmo_operations(service);
  add_scaler_operations(service);
  add_norm_operations(service);
  add_overflow_operations(service);
  add_unscale_operations(service);
  add_fp16_operations(service);
  add_topology_operations(service);
  return service;
}

int serve_adapter() {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that is gone is an error of write()
  reference_service().serve(STDIN_FILENO, STDOUT_FILENO);
  return 0;
}

}  // namespace plumbline::adapter
