/* The sample plugin with one fault, which option fault=NAME chooses; by macros, with another struct: -DVERSION=n,
 * -DSIZE=n, -DCLAIMS=bits, -DMEAGRE (one operation, dtype and reduction, and only the functions that are required),
 * -DNO_SYMBOL. faults_test.py has the requirement that finds each. */
#define plumbline_backend_get sound_backend_get
#include "harness/subject/plugin/samples/unix_sockets.c"
#undef plumbline_backend_get
#include <unwind.h>

static const char* fault = "";
static int is(const char* name) { return strcmp(fault, name) == 0; }

static int64_t size_of_call(const plumbline_call* call) { return call->count * element_size[call->dtype]; }
static int is_of(const plumbline_call* call, int operation) { return call->operation == operation; }

/* A C++ exception, as seen from C. */
static void throw_something(void) {
  static struct _Unwind_Exception exception;
  _Unwind_RaiseException(&exception);
}

/* ---- Faults before a call: those of its arguments, and those that end it. 0: go on with *call. */

static void change(const plumbline_group* group, plumbline_call* call) {
  int has_root = call->root >= 0 && !is_message(call);
  if (is("wrong_root") && has_root) call->root = (call->root + 1) % group->ranks;
  if (is("ignores_tags")) call->tag = 0;
  if (is("product_is_sum") && call->reduction == PLUMBLINE_PRODUCT) call->reduction = PLUMBLINE_SUM;
  if (is("multiplies_by_parts") && call->reduction == PLUMBLINE_PRODUCT && call->dtype == PLUMBLINE_C64) {
    call->dtype = PLUMBLINE_F32;
    call->count *= 2;
  }
  if (is("max_is_min") && call->reduction == PLUMBLINE_MAX) call->reduction = PLUMBLINE_MIN;
  if (is("average_is_sum") && call->reduction == PLUMBLINE_AVG) call->reduction = PLUMBLINE_SUM;
  if (is("roots_are_world_ranks") && has_root)
    for (int member = 0; member < group->ranks; ++member)
      if (group->world[member] == call->root) {
        call->root = member;
        break;
      }
  for (const struct registration* one = group->registered; is("sends_from_the_beginning") && one; one = one->next)
    if ((const char*)call->in >= one->begin && (const char*)call->in < one->begin + one->bytes && call->in != call->out)
      call->in = one->begin;
  if (is("overwrites_input") && call->in != NULL && call->in != call->out && size_of_call(call) > 0)
    ((char*)(uintptr_t)call->in)[0] ^= 1;
}
static int ends(const plumbline_call* call, plumbline_status* status) {
  *status = PLUMBLINE_OK;
  if (is("leaks_a_buffer") && malloc(64) == NULL) return 1;
  if (is("crashes") && is_of(call, PLUMBLINE_REDUCE)) abort();
  if (is("exits") && is_of(call, PLUMBLINE_GATHER)) exit(0);
  if (is("throws") && is_of(call, PLUMBLINE_ALL_GATHER)) throw_something();
  if (is("hangs") && is_of(call, PLUMBLINE_SCATTER))
    for (;;) poll(NULL, 0, 1000);
  if (is("barrier_returns_at_once") && is_of(call, PLUMBLINE_BARRIER)) return 1;
  if (is("returns_unknown_status") && is_of(call, PLUMBLINE_ALL_TO_ALL)) return *status = 99;
  if (is("rejects_zero") && call->count == 0 && !is_of(call, PLUMBLINE_BARRIER)) return *status = 1;
  if (is("lacks_a_claimed_dtype") && call->dtype == PLUMBLINE_I64) return *status = PLUMBLINE_UNSUPPORTED;
  return 0;
}

/* ---- Faults after a call. */

static void reverse_sum(plumbline_group* group, const plumbline_call* call, float* all) {
  float* out = call->out;
  memcpy(out, all + (group->ranks - 1) * call->count, (size_t)call->count * sizeof *out);
  for (int member = group->ranks - 2; member >= 0; --member)
    for (int64_t i = 0; i < call->count; ++i) out[i] += all[member * call->count + i];
}
static void swap_blocks(const plumbline_group* group, const plumbline_call* call) {
  int64_t bytes = size_of_call(call);
  char *a = call->out, *b = a + bytes;
  for (int64_t i = 0; group->ranks > 1 && i < bytes; ++i) {
    char byte = a[i];
    a[i] = b[i];
    b[i] = byte;
  }
}
/* The result of the call before, where its buffers were the same. */
static void repeat_last(const plumbline_call* call) {
  static plumbline_call last;
  static char* result;
  size_t bytes = (size_t)size_of_call(call);
  if (last.in == call->in && last.out == call->out && last.count == call->count) {
    memcpy(call->out, result, bytes);
    return;
  }
  last = *call;
  memcpy(result = realloc(result, bytes + 1), call->out, bytes);
}
static void damage(const plumbline_group* group, const plumbline_call* call) {
  char* out = call->out;
  int64_t bytes = size_of_call(call);
  if (out == NULL || bytes == 0) return;
  if (is("wrong_sum") && is_of(call, PLUMBLINE_ALL_REDUCE)) out[bytes - 1] ^= 1;
  if (is("moves_half_of_c128") && call->dtype == PLUMBLINE_C128 && is_of(call, PLUMBLINE_ALL_GATHER))
    memset(out + bytes * group->ranks / 2, 0, (size_t)(bytes * group->ranks / 2));
  if (is("loses_imaginary_parts") && call->dtype == PLUMBLINE_C128 && is_reduction(call))
    for (int64_t i = 0; i < call->count; ++i) ((double*)call->out)[2 * i + 1] = 0;
  if (is("swaps_ranks") && is_of(call, PLUMBLINE_ALL_GATHER)) swap_blocks(group, call);
  if (is("writes_past_the_end") && is_of(call, PLUMBLINE_BROADCAST)) out[bytes] ^= 1;
  if (is("in_place_is_wrong") && call->in == out) out[0] ^= 1;
  if (is("repeats_the_last_result") && is_of(call, PLUMBLINE_ALL_REDUCE)) repeat_last(call);
}

static plumbline_status faulty_run(plumbline_group* group, const plumbline_call* call, int64_t limit_ns,
                                   plumbline_error* error) {
  plumbline_status status;
  plumbline_call changed = *call;
  char last[16] = {0};
  int64_t size = element_size[call->dtype], bytes = size_of_call(call);
  int drops = is("drops_the_last_element") && is_of(call, PLUMBLINE_ALL_REDUCE) && bytes > 0;
  int reverses = is("adds_in_reverse") && call->dtype == PLUMBLINE_F32 && call->reduction == PLUMBLINE_SUM &&
                 is_of(call, PLUMBLINE_ALL_REDUCE);
  if (ends(call, &status)) return status;
  if (is("succeeds_after_a_failure") && group->failure != NULL) return PLUMBLINE_OK;
  if (is("gives_up_slow_members")) limit_ns = 20000000;
  change(group, &changed);
  if (drops) memcpy(last, (char*)call->out + bytes - size, (size_t)size);
  if (reverses) {
    changed.operation = PLUMBLINE_ALL_GATHER;
    changed.reduction = 0;
    changed.out = get((size_t)(bytes * group->ranks) + 1);
  }
  status = run(group, &changed, limit_ns, error);
  if (is("names_nobody_who_ended")) error->missing_count = 0;
  if (reverses && status == PLUMBLINE_OK && call->count > 0) reverse_sum(group, call, changed.out);
  if (reverses) free(changed.out);
  if (drops) memcpy((char*)call->out + bytes - size, last, (size_t)size);
  if (status == PLUMBLINE_OK) damage(group, call);
  return status;
}

/* ---- Faults of started calls. */

static int any_failed;

static plumbline_status faulty_start(plumbline_group* group, const plumbline_call* calls, size_t count,
                                     plumbline_work** work, plumbline_error* error) {
  plumbline_status status;
  plumbline_call* changed = get(count * sizeof *changed);
  for (size_t i = 0; i < count; ++i) {
    if (is("rejects_messages_to_itself") && is_message(&calls[i]) && calls[i].root == group->rank) {
      free(changed);
      return PLUMBLINE_UNSUPPORTED;
    }
    changed[i] = calls[i];
    change(group, &changed[i]);
  }
  status = start(group, changed, count, work, error);
  if (status == PLUMBLINE_OK && is("start_blocks")) wait(*work, -1, error);
  if (is("start_returns_no_work")) *work = NULL;
  if (status == PLUMBLINE_OK && is("starts_a_batch_in_reverse") && count > 1) /* the messages' places swapped */
    for (size_t i = 0; i < count / 2; ++i) {
      step one = (*work)->steps[i];
      (*work)->steps[i] = (*work)->steps[count - 1 - i];
      (*work)->steps[count - 1 - i] = one;
    }
  free(changed);
  return status;
}
static plumbline_status faulty_test(plumbline_work* work, int32_t* complete, plumbline_error* error) {
  plumbline_status status;
  int is_empty_receive =
      work->count == 1 && work->steps[0].call.count == 0 && is_of(&work->steps[0].call, PLUMBLINE_RECV);
  if (is("fails_other_groups_too") && any_failed) return PLUMBLINE_PEER_FAILED;
  status = test(work, complete, error);
  if (is("test_is_never_true")) *complete = 0;
  if (is("test_is_true_at_once") || (is("empty_messages_are_none") && is_empty_receive)) *complete = 1;
  return status;
}
static plumbline_status faulty_wait(plumbline_work* work, int64_t limit_ns, plumbline_error* error) {
  plumbline_status status;
  if (is("wait_returns_at_once")) return PLUMBLINE_OK;
  if (is("wait_throws")) throw_something();
  if (is("wait_overruns_its_limit") && limit_ns >= 0) limit_ns += INT64_C(4000000000);
  if (is("wait_ends_before_its_limit") && limit_ns > 0) limit_ns /= 4;
  if (is("fails_other_groups_too") && any_failed) return PLUMBLINE_PEER_FAILED;
  status = wait(work, limit_ns, error);
  any_failed |= status != PLUMBLINE_OK;
  if (is("names_nobody_who_ended")) error->missing_count = 0;
  if (status == PLUMBLINE_TIMEOUT && is("blames_all_others")) {
    error->missing_count = 0;
    for (int member = 0; member < work->group->ranks; ++member)
      if (member != work->group->rank) error->missing[error->missing_count++] = member;
  }
  if (status == PLUMBLINE_TIMEOUT && is("times_out_as_a_failure")) return PLUMBLINE_FAILURE;
  return status;
}

/* ---- Faults of blocks of any lengths. */

static plumbline_status faulty_run_uneven(plumbline_group* group, const plumbline_uneven_call* call, int64_t limit_ns,
                                          plumbline_error* error) {
  plumbline_uneven_call changed = *call;
  int64_t size = element_size[call->dtype], own = begin_of(call->in_counts, call->in_counts ? group->rank : 0);
  plumbline_status status;
  if (is("ignores_uneven_limits")) limit_ns = -1;
  if (is("uneven_max_is_min") && call->reduction == PLUMBLINE_MAX) changed.reduction = PLUMBLINE_MIN;
  status = run_uneven(group, &changed, limit_ns, error);
  if (status != PLUMBLINE_OK) return status;
  if (is("uneven_blocks_begin_late") && call->in_counts == NULL && call->out_counts[0] > 0 && group->ranks > 1)
    memmove((char*)call->out + size, call->out, (size_t)((begin_of(call->out_counts, group->ranks) - 1) * size));
  if (is("loses_the_last_block") && call->out_counts != NULL && call->in_counts != NULL) {
    int last = group->ranks - 1;
    memset((char*)call->out + begin_of(call->out_counts, last) * size, 0, (size_t)(call->out_counts[last] * size));
  }
  if (is("uneven_input_is_scratch") && call->reduction != 0 && call->out == (const char*)call->in + own * size)
    memset((char*)(uintptr_t)call->in, 0, (size_t)(own * size));
  return PLUMBLINE_OK;
}

static plumbline_status faulty_run_scaled(plumbline_group* group, const plumbline_call* call, double factor,
                                          int64_t limit_ns, plumbline_error* error) {
  if (is("ignores_factors")) factor = 1;
  if (is("factors_are_integers")) factor = (int)factor;
  return run_scaled(group, call, factor, limit_ns, error);
}

static plumbline_status faulty_run_strided(plumbline_group* group, const plumbline_call* call,
                                           const plumbline_rows* in, const plumbline_rows* out, int64_t limit_ns,
                                           plumbline_error* error) {
  const plumbline_rows packed = {1, 1};
  if (is("ignores_strides_of_inputs")) in = &packed;
  return run_strided(group, call, in, out, limit_ns, error);
}

/* ---- Faults of groups. */

static int any_shrunk;

static plumbline_status faulty_create_group(plumbline_group* parent, const plumbline_group_info* info,
                                            plumbline_group** group, plumbline_error* error) {
  plumbline_status status = create_group(parent, info, group, error);
  plumbline_group* one = *group;
  if (is("fails_other_groups_too") && any_failed) return PLUMBLINE_PEER_FAILED;
  if (is("sorts_the_ranks_of_groups"))
    for (int i = 0; i < one->ranks; ++i)
      for (int j = i + 1; j < one->ranks; ++j)
        if (one->world[j] < one->world[i]) {
          int rank = one->world[i];
          one->world[i] = one->world[j];
          one->world[j] = rank;
        }
  for (int member = 0; member < one->ranks; ++member)
    if (one->world[member] == one->context->rank) one->rank = member;
  if (is("equal_lists_share_a_group")) {
    one->id = 0;
    for (int member = 0; member < one->ranks; ++member) one->id = one->id * 64 + (uint64_t)one->world[member] + 1;
  }
  if (is("creates_no_group")) *group = NULL;
  return status;
}
static plumbline_status faulty_shrink(plumbline_group* parent, const plumbline_group_info* info,
                                      plumbline_group** group, plumbline_error* error) {
  plumbline_status status = shrink(parent, info, group, error);
  plumbline_group* one = *group;
  if (is("shrunk_groups_begin_elsewhere"))
    for (int member = 0; member < one->ranks; ++member)
      one->world[member] = info->world_ranks[(member + 1) % one->ranks];
  any_shrunk = 1;
  if (is("shrunk_groups_keep_the_id")) one->id = parent->id;
  if (is("shrinks_once") && parent->ranks < parent->context->ranks) return PLUMBLINE_FAILURE;
  return status;
}
static plumbline_status faulty_grow(plumbline_context* context, plumbline_group* parent, const char* words,
                                    const plumbline_group_info* info, plumbline_group** group, plumbline_error* error) {
  if (is("shrunk_groups_do_not_grow") && parent != NULL && any_shrunk) return PLUMBLINE_FAILURE;
  plumbline_status status = grow(context, parent, words, info, group, error);
  if (status != PLUMBLINE_OK) return status;
  plumbline_group* one = *group;
  if (is("newcomers_come_first"))
    for (int member = 0; member < one->ranks; ++member) {
      one->world[member] = info->world_ranks[(member + one->ranks - 1) % one->ranks];
      if (one->world[member] == context->rank) one->rank = member;
    }
  if (is("growing_ends_the_old") && parent != NULL) parent->failure = "the group has grown";
  return status;
}

/* ---- Faults of registered memory. */

static plumbline_status faulty_deregister_memory(plumbline_group* group, uint64_t registration,
                                                 plumbline_error* error) {
  plumbline_status status = deregister_memory(group, registration, error);
  if (is("deregisters_anything")) return PLUMBLINE_OK;
  while (is("ends_all_registrations") && group->registered != NULL)
    deregister_memory(group, group->registered->number, error);
  return status;
}
static plumbline_status faulty_register_memory(plumbline_group* group, void* memory, size_t bytes,
                                               uint64_t* registration, plumbline_error* error) {
  if (is("leaves_copies_of_registered")) {
    static void* volatile copy;  // or compilers leave out what nobody reads
    copy = get(bytes);
    memcpy(copy, memory, bytes);
  }
  return register_memory(group, memory, bytes, registration, error);
}
static void faulty_destroy_group(plumbline_group* group) {
  if (is("hangs_in_destroy_group"))
    for (;;) poll(NULL, 0, 1000);
  if (is("crashes_in_destroy_group")) abort();
  if (is("exits_in_destroy_group")) exit(0);
  destroy_group(group);
}

/* ---- Faults of the job. */

static plumbline_status faulty_open(const plumbline_job* job, plumbline_context** context, plumbline_error* error) {
  plumbline_job sound = *job;
  for (size_t i = 0; i < job->option_count; ++i)
    if (strcmp(job->options[i].key, "fault") == 0) fault = strdup(job->options[i].value);
  sound.option_count = 0;
  if (is("crashes_in_open")) abort();
  if (is("hangs_in_open"))
    for (;;) poll(NULL, 0, 1000);
  if (is("exits_in_open")) exit(0);
  if (is("throws_in_open")) throw_something();
  if (is("open_returns_unknown_status")) return -7;
  if (is("open_overflows_its_message")) {
    memset(error->message, 'x', error->message_capacity);
    return PLUMBLINE_FAILURE;
  }
  return open_job(&sound, context, error);
}
static void faulty_close(plumbline_context* context) {
  if (is("crashes_in_close")) abort();
  if (is("hangs_in_close"))
    for (;;) poll(NULL, 0, 1000);
  close_job(context);
}

#ifdef NO_SYMBOL
#define plumbline_backend_get another_name
#endif
__attribute__((visibility("default"))) const plumbline_backend* plumbline_backend_get(void) {
  static plumbline_backend backend;
  backend = *sound_backend_get();
  backend.open = faulty_open;
  backend.close = faulty_close;
  backend.create_group = faulty_create_group;
  backend.destroy_group = faulty_destroy_group;
  backend.run = faulty_run;
  backend.start = faulty_start;
  backend.test = faulty_test;
  backend.wait = faulty_wait;
  backend.run_uneven = faulty_run_uneven;
  backend.run_scaled = faulty_run_scaled;
  backend.shrink = faulty_shrink;
  backend.run_strided = faulty_run_strided;
  backend.grow = faulty_grow;
  backend.register_memory = faulty_register_memory;
  backend.deregister_memory = faulty_deregister_memory;
#ifdef VERSION
  backend.version = VERSION;
#endif
#ifdef SIZE
  backend.size = SIZE;
#endif
#ifdef MEAGRE
  backend.operations = PLUMBLINE_BIT(PLUMBLINE_ALL_REDUCE) | PLUMBLINE_BIT(PLUMBLINE_BARRIER);
  backend.dtypes = PLUMBLINE_BIT(PLUMBLINE_F32);
  backend.reductions = PLUMBLINE_BIT(PLUMBLINE_SUM);
  backend.claims &= ~(uint32_t)PLUMBLINE_CLAIM_COMPLEX_PRODUCTS;
  backend.create_group = NULL;
  backend.start = NULL;
  backend.test = NULL;
  backend.wait = NULL;
  backend.drop = NULL;
  backend.run_uneven = NULL;
  backend.uneven_operations = 0;
  backend.run_scaled = NULL;
  backend.shrink = NULL;
  backend.run_strided = NULL;
  backend.grow = NULL;
  backend.register_memory = NULL;
  backend.deregister_memory = NULL;
#endif
#ifdef CLAIMS
  backend.claims |= CLAIMS;
#endif
  return &backend;
}
