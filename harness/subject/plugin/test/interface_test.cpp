// The layout of plumbline_backend.h is what plugins were compiled with: it must not move while the version is 1.
#include <cstddef>

#include "harness/subject/plumbline_backend.h"

#define PLUMBLINE_IS_AT(type, field, offset) static_assert(offsetof(type, field) == (offset), #type "." #field)

static_assert(PLUMBLINE_BACKEND_VERSION == 1 && PLUMBLINE_NO_LIMIT == -1);

PLUMBLINE_IS_AT(plumbline_backend, version, 0);
PLUMBLINE_IS_AT(plumbline_backend, claims, 4);
PLUMBLINE_IS_AT(plumbline_backend, size, 8);
PLUMBLINE_IS_AT(plumbline_backend, name, 16);
PLUMBLINE_IS_AT(plumbline_backend, library_version, 24);
PLUMBLINE_IS_AT(plumbline_backend, notes, 32);
PLUMBLINE_IS_AT(plumbline_backend, dtypes, 40);
PLUMBLINE_IS_AT(plumbline_backend, operations, 44);
PLUMBLINE_IS_AT(plumbline_backend, reductions, 48);
PLUMBLINE_IS_AT(plumbline_backend, reserved, 52);
PLUMBLINE_IS_AT(plumbline_backend, open, 56);
PLUMBLINE_IS_AT(plumbline_backend, close, 64);
PLUMBLINE_IS_AT(plumbline_backend, world, 72);
PLUMBLINE_IS_AT(plumbline_backend, create_group, 80);
PLUMBLINE_IS_AT(plumbline_backend, destroy_group, 88);
PLUMBLINE_IS_AT(plumbline_backend, run, 96);
PLUMBLINE_IS_AT(plumbline_backend, start, 104);
PLUMBLINE_IS_AT(plumbline_backend, test, 112);
PLUMBLINE_IS_AT(plumbline_backend, wait, 120);
PLUMBLINE_IS_AT(plumbline_backend, drop, 128);
PLUMBLINE_IS_AT(plumbline_backend, abort, 136);
PLUMBLINE_IS_AT(plumbline_backend, uneven_operations, 144);  // the size of the first header
PLUMBLINE_IS_AT(plumbline_backend, run_uneven, 152);
PLUMBLINE_IS_AT(plumbline_backend, run_scaled, 160);
PLUMBLINE_IS_AT(plumbline_backend, shrink, 168);
PLUMBLINE_IS_AT(plumbline_backend, run_strided, 176);
PLUMBLINE_IS_AT(plumbline_backend, register_memory, 184);
PLUMBLINE_IS_AT(plumbline_backend, deregister_memory, 192);
PLUMBLINE_IS_AT(plumbline_backend, allocate, 200);
PLUMBLINE_IS_AT(plumbline_backend, deallocate, 208);
PLUMBLINE_IS_AT(plumbline_backend, invite, 216);
PLUMBLINE_IS_AT(plumbline_backend, grow, 224);
static_assert(sizeof(plumbline_backend) == 232);
static_assert(offsetof(plumbline_rows, columns) == 0 && offsetof(plumbline_rows, stride) == 8);
static_assert(sizeof(plumbline_rows) == 16);

PLUMBLINE_IS_AT(plumbline_call, operation, 0);
PLUMBLINE_IS_AT(plumbline_call, dtype, 4);
PLUMBLINE_IS_AT(plumbline_call, reduction, 8);
PLUMBLINE_IS_AT(plumbline_call, root, 12);
PLUMBLINE_IS_AT(plumbline_call, tag, 16);
PLUMBLINE_IS_AT(plumbline_call, device, 20);
PLUMBLINE_IS_AT(plumbline_call, count, 24);
PLUMBLINE_IS_AT(plumbline_call, in, 32);
PLUMBLINE_IS_AT(plumbline_call, out, 40);
PLUMBLINE_IS_AT(plumbline_call, stream, 48);
PLUMBLINE_IS_AT(plumbline_call, device_index, 56);
static_assert(sizeof(plumbline_call) == 64);  // the stride of the list that start() gets

PLUMBLINE_IS_AT(plumbline_uneven_call, operation, 0);
PLUMBLINE_IS_AT(plumbline_uneven_call, dtype, 4);
PLUMBLINE_IS_AT(plumbline_uneven_call, reduction, 8);
PLUMBLINE_IS_AT(plumbline_uneven_call, device, 12);
PLUMBLINE_IS_AT(plumbline_uneven_call, in, 16);
PLUMBLINE_IS_AT(plumbline_uneven_call, out, 24);
PLUMBLINE_IS_AT(plumbline_uneven_call, in_counts, 32);
PLUMBLINE_IS_AT(plumbline_uneven_call, out_counts, 40);
PLUMBLINE_IS_AT(plumbline_uneven_call, stream, 48);
PLUMBLINE_IS_AT(plumbline_uneven_call, device_index, 56);
static_assert(sizeof(plumbline_uneven_call) == 64);

PLUMBLINE_IS_AT(plumbline_error, message, 0);
PLUMBLINE_IS_AT(plumbline_error, message_capacity, 8);
PLUMBLINE_IS_AT(plumbline_error, missing, 16);
PLUMBLINE_IS_AT(plumbline_error, missing_capacity, 24);
PLUMBLINE_IS_AT(plumbline_error, missing_count, 28);

PLUMBLINE_IS_AT(plumbline_job, rank, 0);
PLUMBLINE_IS_AT(plumbline_job, ranks, 4);
PLUMBLINE_IS_AT(plumbline_job, scratch, 8);
PLUMBLINE_IS_AT(plumbline_job, options, 16);
PLUMBLINE_IS_AT(plumbline_job, option_count, 24);
static_assert(sizeof(plumbline_option) == 16);

PLUMBLINE_IS_AT(plumbline_group_info, id, 0);
PLUMBLINE_IS_AT(plumbline_group_info, rank, 8);
PLUMBLINE_IS_AT(plumbline_group_info, ranks, 12);
PLUMBLINE_IS_AT(plumbline_group_info, world_ranks, 16);
PLUMBLINE_IS_AT(plumbline_group_info, parent_ranks, 24);
PLUMBLINE_IS_AT(plumbline_group_info, name, 32);

static_assert(PLUMBLINE_FAILURE == 6 && PLUMBLINE_U8 == 7 && PLUMBLINE_RECV == 11 && PLUMBLINE_PRODUCT == 5);
static_assert(PLUMBLINE_CLAIM_ROUNDS_EACH_HALF_ADDITION == 0x200);
