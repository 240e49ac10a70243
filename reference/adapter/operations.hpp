// reference/adapter/operations.hpp: the reference's answers, a function per component.
//
// Model   A component's file reads arguments, calls the reference, and writes the result under the recorded
//         names; reference_service() calls them all.
#pragma once

#include "reference/adapter/service.hpp"

namespace plumbline::adapter {

/// comm.ring_sum
void add_comm_operations(AdapterService& service);
/// comm.calls
void add_call_operations(AdapterService& service);
/// schedules.partition_uniform, partition_balanced, partition_optimal, count_layer_params
void add_schedule_operations(AdapterService& service);
/// schedules.partition_method, pipeline_layout, partition_counted, partition_measured, partition_costs
void add_partition_operations(AdapterService& service);
/// schedules.check, simulate
void add_schedule_check_operations(AdapterService& service);
/// schedules.stage_to_rank, generate, load_csv, lower, defer_receives, instruction_stream, trace
void add_schedule_plan_operations(AdapterService& service);
/// schedules.table, warmup
void add_warmup_operations(AdapterService& service);
/// schedules.slots
void add_slot_operations(AdapterService& service);
/// schedules.execute
void add_execute_operations(AdapterService& service);
/// schedules.send_tensors
void add_send_operations(AdapterService& service);
/// Our names of all schedules.
[[nodiscard]] Words own_schedules();
/// topology.process_topology, query, prime_factors, grid, rank_generator, hyper_comm_grid, device_mesh, mesh_of_ranks,
/// placement
void add_topology_operations(AdapterService& service);
/// bucketing.assign, capacity_config, ddp_runs, layout, buffers, flatten, check, read, exposed, equal_buckets, agree
void add_bucketing_operations(AdapterService& service);
/// bucketing.reduce.
void add_reduce_operations(AdapterService& service);
/// slowmo.trace
void add_slowmo_operations(AdapterService& service);
/// gossip.graph, blocking, trace, topology, spectrum, simulate
void add_gossip_operations(AdapterService& service);
/// bucketing.dp_pass
void add_program_operations(AdapterService& service);
/// scaler.trace, found_inf, clip_grad_norm
void add_scaler_operations(AdapterService& service);
/// scaler.total_norm
void add_norm_operations(AdapterService& service);
/// scaler.overflow
void add_overflow_operations(AdapterService& service);
void add_unscale_operations(AdapterService& service);
/// scaler.fp16_optimizer
void add_fp16_operations(AdapterService& service);
/// Their arguments program and rings.
[[nodiscard]] std::vector<ArgumentRow> program_rows();
/// bucketing.race_check
void add_race_operations(AdapterService& service);
/// groups.conventions, .lint, .parallel_groups and .shared_module, and topology.initialize_model_parallel
void add_group_operations(AdapterService& service);
/// groups.expert_groups
void add_expert_group_operations(AdapterService& service);

}  // namespace plumbline::adapter
