/* unix_sockets.c: a small collectives library over Unix sockets, as a plugin of Plumbline.
 *
 * Model   Each pair of ranks shares a stream socket. A call sends one frame to every member of its
 *         group when it starts, an empty one where that member needs no data; it is complete when the
 *         frames of all members have arrived and its own have been written. A frame carries its group
 *         and its number, so that calls of different groups never match.
 * Cost    n times the data of a call on every link, and a copy on both sides, of registered memory on the receiver's
 *         alone: simple, not fast.
 * Limits  Progress is made inside calls only. Element types are those that C has, and formats of 8 bits
 *         to be moved; MAX_RANKS ranks. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <plumbline_backend.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 64 };

typedef struct frame { /* the header, then the data, go over the socket in one piece */
  struct frame* next;
  const char* data; /* what follows the header over the socket: in registered memory, or of this frame's own */
  int64_t done;     /* bytes written or read */
  struct {
    uint64_t group;
    int64_t number; /* of a collective in its group; -1 - tag of a message */
    int64_t bytes;
  } header;
} frame;
#define HEADER ((int64_t)sizeof(((frame*)0)->header))

struct plumbline_context {
  int rank, ranks, socket[MAX_RANKS]; /* -1: this rank itself, or one that has left */
  frame *out[MAX_RANKS], *in[MAX_RANKS], *reading[MAX_RANKS];
};
struct plumbline_group {
  plumbline_context* context;
  uint64_t id;
  int rank, ranks, world[MAX_RANKS];
  int64_t collectives;
  plumbline_work* works; /* unfinished, in the order of their start */
  const char* failure;   /* why the group has failed; null: it has not */
  struct registration {
    struct registration* next;
    uint64_t number;
    const char* begin;
    size_t bytes;
  } * registered;
  uint64_t registrations; /* that were ever made */
};
typedef struct step {
  plumbline_call call;
  int64_t number;
  frame* from[MAX_RANKS];
} step;
struct plumbline_work {
  plumbline_work* next;
  plumbline_group* group;
  size_t count;
  int complete;
  step steps[];
};

static const int64_t element_size[] = {0, 2, 2, 4, 8, 4, 8, 1, 1, 1, 1, 8, 16};

static void* get(size_t bytes) {
  void* memory = calloc(1, bytes);
  if (memory == NULL) abort();
  return memory;
}
static plumbline_status fail(plumbline_group* group, plumbline_error* error, plumbline_status status,
                             const char* what) {
  snprintf(error->message, error->message_capacity, "%s", what);
  if (group != NULL && group->failure == NULL) group->failure = what;
  return status;
}

/* Of the members in error->missing. */
static plumbline_status fail_without(plumbline_group* group, plumbline_error* error) {
  return fail(group, error, PLUMBLINE_PEER_FAILED, "a member has closed its socket");
}
/* Whether that member of the group has closed its socket. */
static int is_gone(const plumbline_group* group, int member) {
  int rank = group->world[member];
  return rank != group->context->rank && group->context->socket[rank] < 0;
}

/* ---- Frames. */

static void push(frame** queue, frame* last) {
  while (*queue != NULL) queue = &(*queue)->next;
  *queue = last;
}
static int is_registered(const plumbline_group* group, const char* data, size_t bytes) {
  for (const struct registration* one = group->registered; one != NULL; one = one->next)
    if (data >= one->begin && data + bytes <= one->begin + one->bytes) return 1;
  return 0;
}
/* Registered memory stays as it is until the call is complete, and is written from where it lies. */
static void send_frame(plumbline_group* group, int member, int64_t number, const void* data, int64_t bytes) {
  plumbline_context* context = group->context;
  int to = group->world[member], is_lent = to != context->rank && is_registered(group, data, (size_t)bytes);
  frame* one = get(sizeof *one + (is_lent ? 0 : (size_t)bytes));
  one->header.group = group->id;
  one->header.number = number;
  one->header.bytes = bytes;
  one->data = is_lent ? data : (const char*)(one + 1);
  if (bytes > 0 && !is_lent) memcpy(one + 1, data, (size_t)bytes);
  push(to == context->rank ? &context->in[to] : &context->out[to], one);
}
static frame* take(frame** queue, uint64_t group, int64_t number) {
  for (; *queue != NULL; queue = &(*queue)->next)
    if ((*queue)->header.group == group && (*queue)->header.number == number) {
      frame* found = *queue;
      *queue = found->next;
      return found;
    }
  return NULL;
}
static void write_frames(plumbline_context* context, int to) {
  frame* one;
  while ((one = context->out[to]) != NULL && context->socket[to] >= 0) {
    int64_t left = HEADER + one->header.bytes - one->done;
    int64_t of_header = one->done < HEADER ? HEADER - one->done : 0, of_data = one->done + of_header - HEADER;
    struct iovec parts[] = {{(char*)&one->header + HEADER - of_header, (size_t)of_header},
                            {(char*)(uintptr_t)one->data + of_data, (size_t)(left - of_header)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t count = sendmsg(context->socket[to], &message, MSG_NOSIGNAL);
    if (count < 0) return; /* full; a closed socket is seen by read_frames */
    one->done += count;
    if (count < left) continue;
    context->out[to] = one->next;
    free(one);
  }
}
/* The owner of what a call would still send may use it again: the frames get copies. */
static void take_copies(plumbline_group* group) {
  for (int rank = 0; rank < group->context->ranks; ++rank)
    for (frame** at = &group->context->out[rank]; *at != NULL; at = &(*at)->next) {
      frame* one = *at;
      if (group->context->socket[rank] < 0) break; /* nobody reads it any more */
      if (one->header.group != group->id || one->data == (const char*)(one + 1)) continue;
      frame* copy = *at = get(sizeof *copy + (size_t)one->header.bytes);
      *copy = *one;
      copy->data = memcpy(copy + 1, one->data, (size_t)one->header.bytes);
      free(one);
    }
}
static void read_frames(plumbline_context* context, int from) {
  for (;;) {
    frame* one = context->reading[from];
    if (one == NULL) one = context->reading[from] = get(sizeof *one);
    int64_t left = (one->done < HEADER ? HEADER : HEADER + one->header.bytes) - one->done;
    ssize_t count = recv(context->socket[from], (char*)&one->header + one->done, (size_t)left, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      close(context->socket[from]);
      context->socket[from] = -1;
      return;
    }
    if ((one->done += count) == HEADER) { /* its length is known from here on */
      one = context->reading[from] = realloc(one, sizeof *one + (size_t)one->header.bytes);
      if (one == NULL) abort();
    }
    if (one->done < HEADER || one->done < HEADER + one->header.bytes) continue;
    context->reading[from] = NULL;
    push(&context->in[from], one);
  }
}
static void progress(plumbline_context* context, int wait_ms) {
  struct pollfd sockets[MAX_RANKS];
  for (int rank = 0; rank < context->ranks; ++rank) {
    sockets[rank].fd = context->socket[rank];
    sockets[rank].events = (short)(POLLIN | (context->out[rank] != NULL ? POLLOUT : 0));
    sockets[rank].revents = 0;
  }
  poll(sockets, (nfds_t)context->ranks, wait_ms);
  for (int rank = 0; rank < context->ranks; ++rank) {
    if (sockets[rank].revents & POLLOUT) write_frames(context, rank);
    if (sockets[rank].revents & (POLLIN | POLLHUP | POLLERR)) read_frames(context, rank);
  }
}

/* ---- Arithmetic, in the element type: integers wrap, NaN wins in min and max, -0 < +0. */

#define DEFINE_FOLD(NAME, T, WRAPPING)                                                                   \
  static void NAME(int op, T* a, const T* b, int64_t count) {                                            \
    for (int64_t i = 0; i < count; ++i) {                                                                \
      int equal = a[i] == b[i], nan = isnan((double)b[i]);                                               \
      if (op == PLUMBLINE_SUM || op == PLUMBLINE_AVG) a[i] = (T)((WRAPPING)a[i] + (WRAPPING)b[i]);       \
      if (op == PLUMBLINE_PRODUCT) a[i] = (T)((WRAPPING)a[i] * (WRAPPING)b[i]);                          \
      if (op == PLUMBLINE_MIN && (nan || b[i] < a[i] || (equal && signbit((double)b[i])))) a[i] = b[i];  \
      if (op == PLUMBLINE_MAX && (nan || b[i] > a[i] || (equal && !signbit((double)b[i])))) a[i] = b[i]; \
    }                                                                                                    \
  }
DEFINE_FOLD(fold_f32, float, float)
DEFINE_FOLD(fold_f64, double, double)
DEFINE_FOLD(fold_i32, int32_t, uint32_t)
DEFINE_FOLD(fold_i64, int64_t, uint64_t)
DEFINE_FOLD(fold_u8, uint8_t, uint32_t)

/* Sums of complex numbers are those of their parts. */
#define DEFINE_MULTIPLY(NAME, T)                      \
  static void NAME(T* a, const T* b, int64_t count) { \
    for (int64_t i = 0; i < 2 * count; i += 2) {      \
      T real = a[i] * b[i] - a[i + 1] * b[i + 1];     \
      a[i + 1] = a[i] * b[i + 1] + a[i + 1] * b[i];   \
      a[i] = real;                                    \
    }                                                 \
  }
DEFINE_MULTIPLY(multiply_c64, float)
DEFINE_MULTIPLY(multiply_c128, double)

static void fold_complex(const plumbline_call* call, void* a, const void* b) {
  int is_product = call->reduction == PLUMBLINE_PRODUCT;
  if (call->dtype == PLUMBLINE_C64 && is_product) multiply_c64(a, b, call->count);
  if (call->dtype == PLUMBLINE_C64 && !is_product) fold_f32(call->reduction, a, b, 2 * call->count);
  if (call->dtype == PLUMBLINE_C128 && is_product) multiply_c128(a, b, call->count);
  if (call->dtype == PLUMBLINE_C128 && !is_product) fold_f64(call->reduction, a, b, 2 * call->count);
}
static void fold(const plumbline_call* call, void* a, const void* b) {
  if (call->dtype >= PLUMBLINE_C64) fold_complex(call, a, b);
  if (call->dtype == PLUMBLINE_F32) fold_f32(call->reduction, a, b, call->count);
  if (call->dtype == PLUMBLINE_F64) fold_f64(call->reduction, a, b, call->count);
  if (call->dtype == PLUMBLINE_I32) fold_i32(call->reduction, a, b, call->count);
  if (call->dtype == PLUMBLINE_I64) fold_i64(call->reduction, a, b, call->count);
  if (call->dtype == PLUMBLINE_U8 || call->dtype == PLUMBLINE_BOOL) fold_u8(call->reduction, a, b, call->count);
}
static void divide(const plumbline_call* call, void* a, int ranks) {
  for (int64_t i = 0; i < call->count * (call->dtype >= PLUMBLINE_C64 ? 2 : 1); ++i)
    if (call->dtype == PLUMBLINE_F32 || call->dtype == PLUMBLINE_C64)
      ((float*)a)[i] /= (float)ranks;
    else
      ((double*)a)[i] /= (double)ranks;
}

/* ---- Calls. */

static int is_message(const plumbline_call* call) {
  return call->operation == PLUMBLINE_SEND || call->operation == PLUMBLINE_RECV;
}
static int is_reduction(const plumbline_call* call) { return call->reduction != 0; }

/* Bytes that member `from` sends to member `to`. */
static int64_t bytes_between(const plumbline_call* call, int from, int to) {
  int64_t bytes = call->count * element_size[call->dtype];
  switch (call->operation) {
    case PLUMBLINE_REDUCE:
    case PLUMBLINE_GATHER:
      return to == call->root ? bytes : 0;
    case PLUMBLINE_BROADCAST:
    case PLUMBLINE_SCATTER:
      return from == call->root ? bytes : 0;
    case PLUMBLINE_BARRIER:
      return 0;
    default:
      return bytes;
  }
}
static void send_frames(plumbline_group* group, const step* one) {
  const plumbline_call* call = &one->call;
  int has_blocks = call->operation == PLUMBLINE_REDUCE_SCATTER || call->operation == PLUMBLINE_ALL_TO_ALL ||
                   call->operation == PLUMBLINE_SCATTER;
  const char* data = call->operation == PLUMBLINE_BROADCAST ? call->out : call->in;
  for (int to = 0; to < group->ranks; ++to) {
    int64_t bytes = bytes_between(call, group->rank, to);
    if (!is_message(call) || (call->operation == PLUMBLINE_SEND && to == call->root))
      send_frame(group, to, one->number, bytes == 0 ? NULL : data + (has_blocks ? to * bytes : 0), bytes);
  }
}
static int awaits(const step* one, int member) {
  if (one->from[member] != NULL) return 0;
  return !is_message(&one->call) || (one->call.operation == PLUMBLINE_RECV && member == one->call.root);
}
static int work_awaits(const plumbline_work* work, int member) {
  for (size_t i = 0; i < work->count; ++i)
    if (awaits(&work->steps[i], member)) return 1;
  return 0;
}
/* In the order of their start: messages of one tag go to the receives that came first. */
static void match(plumbline_group* group) {
  for (plumbline_work* work = group->works; work != NULL; work = work->next)
    for (step* one = work->steps; one < work->steps + work->count; ++one)
      for (int member = 0; member < group->ranks; ++member)
        if (awaits(one, member))
          one->from[member] = take(&group->context->in[group->world[member]], group->id, one->number);
}
static plumbline_status finish(plumbline_group* group, const step* one, plumbline_error* error) {
  const plumbline_call* call = &one->call;
  int has_blocks = call->operation == PLUMBLINE_ALL_GATHER || call->operation == PLUMBLINE_ALL_TO_ALL ||
                   call->operation == PLUMBLINE_GATHER;
  frame* sum = NULL;
  for (int member = 0; member < group->ranks; ++member) {
    frame* from = one->from[member];
    int64_t bytes = bytes_between(call, member, group->rank);
    if (from == NULL) continue;
    if (from->header.bytes != bytes) return fail(group, error, PLUMBLINE_MISMATCH, "a member sent another length");
    if (bytes == 0) continue;
    if (!is_reduction(call))
      memcpy((char*)call->out + (has_blocks ? member * bytes : 0), from + 1, (size_t)bytes);
    else if (sum == NULL)
      sum = from;
    else
      fold(call, sum + 1, from + 1);
  }
  if (sum != NULL && call->reduction == PLUMBLINE_AVG) divide(call, sum + 1, group->ranks);
  if (sum != NULL) memcpy(call->out, sum + 1, (size_t)sum->header.bytes);
  return PLUMBLINE_OK;
}
static void unlink_work(plumbline_work* work) {
  plumbline_work** at = &work->group->works;
  while (*at != NULL && *at != work) at = &(*at)->next;
  if (*at != NULL) *at = work->next;
}

static plumbline_status start(plumbline_group* group, const plumbline_call* calls, size_t count, plumbline_work** work,
                              plumbline_error* error) {
  if (group->failure != NULL) return fail(group, error, PLUMBLINE_PEER_FAILED, group->failure);
  plumbline_work* one = *work = get(sizeof *one + count * sizeof(step));
  plumbline_work** last = &group->works;
  one->group = group;
  one->count = count;
  for (size_t i = 0; i < count; ++i) {
    one->steps[i].call = calls[i];
    one->steps[i].number = is_message(&calls[i]) ? -1 - (int64_t)calls[i].tag : group->collectives++;
    send_frames(group, &one->steps[i]);
  }
  while (*last != NULL) last = &(*last)->next;
  *last = one;
  progress(group->context, 0);
  return PLUMBLINE_OK;
}
static plumbline_status test(plumbline_work* work, int32_t* complete, plumbline_error* error) {
  plumbline_group* group = work->group;
  plumbline_context* context = group->context;
  if ((*complete = work->complete) != 0) return PLUMBLINE_OK;
  if (group->failure != NULL) return fail(group, error, PLUMBLINE_PEER_FAILED, group->failure);
  progress(context, 0);
  match(group);
  int waits = 0;
  for (int member = 0; member < group->ranks; ++member) {
    if (!work_awaits(work, member)) continue;
    waits = 1;
    if (is_gone(group, member)) error->missing[error->missing_count++] = member;
  }
  if (error->missing_count > 0) return fail_without(group, error); /* even if others have not made their calls */
  if (waits) return PLUMBLINE_OK;
  for (int rank = 0; rank < context->ranks; ++rank)
    if (context->out[rank] != NULL && context->socket[rank] >= 0) return PLUMBLINE_OK;
  for (const step* one = work->steps; one < work->steps + work->count; ++one) {
    plumbline_status status = finish(group, one, error);
    if (status != PLUMBLINE_OK) return status;
  }
  unlink_work(work);
  *complete = work->complete = 1;
  return PLUMBLINE_OK;
}
static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}
static plumbline_status time_out(plumbline_work* work, plumbline_error* error) {
  for (int member = 0; member < work->group->ranks; ++member)
    if (work_awaits(work, member)) error->missing[error->missing_count++] = member;
  return fail(work->group, error, PLUMBLINE_TIMEOUT, "the time limit passed");
}
static plumbline_status wait(plumbline_work* work, int64_t limit_ns, plumbline_error* error) {
  int64_t begin = now();
  for (;;) {
    int32_t complete = 0;
    plumbline_status status = test(work, &complete, error);
    if (status != PLUMBLINE_OK || complete) return status;
    int64_t left = limit_ns < 0 ? INT64_MAX : limit_ns - (now() - begin);
    if (left <= 0) return time_out(work, error);
    progress(work->group->context, left < 50000000 ? (int)(left / 1000000) : 50);
  }
}
static void drop(plumbline_work* work) {
  if (!work->complete && work->group->failure == NULL) work->group->failure = "an unfinished work was dropped";
  if (!work->complete) take_copies(work->group);
  unlink_work(work);
  for (size_t i = 0; i < work->count; ++i)
    for (int member = 0; member < work->group->ranks; ++member) free(work->steps[i].from[member]);
  free(work);
}
static plumbline_status run(plumbline_group* group, const plumbline_call* call, int64_t limit_ns,
                            plumbline_error* error) {
  plumbline_work* work = NULL;
  plumbline_status status = start(group, call, 1, &work, error);
  if (status != PLUMBLINE_OK) return status;
  status = wait(work, limit_ns, error);
  drop(work);
  return status;
}

/* The products go over the sockets: frames are copies of what they are made of. */
static plumbline_status run_scaled(plumbline_group* group, const plumbline_call* call, double factor, int64_t limit_ns,
                                   plumbline_error* error) {
  const int64_t count = call->count * (call->operation == PLUMBLINE_REDUCE_SCATTER ? group->ranks : 1);
  plumbline_call product = *call;
  void* products = get((size_t)(count * element_size[call->dtype]) + 1);
  for (int64_t i = 0; i < count; ++i)
    if (call->dtype == PLUMBLINE_F32)
      ((float*)products)[i] = (float)factor * ((const float*)call->in)[i];
    else
      ((double*)products)[i] = factor * ((const double*)call->in)[i];
  product.in = products;
  plumbline_status status = run(group, &product, limit_ns, error);
  free(products);
  return status;
}

/* The elements of rows go over the sockets without gaps, for the same reason. */
static void copy_rows(char* packed, char* buffer, const plumbline_rows* rows, int64_t count, int64_t size, int packs) {
  for (int64_t i = 0; i < count; ++i) {
    char* one = buffer + (i / rows->columns * rows->stride + i % rows->columns) * size;
    memcpy(packs ? packed + i * size : one, packs ? one : packed + i * size, (size_t)size);
  }
}
static plumbline_status run_strided(plumbline_group* group, const plumbline_call* call, const plumbline_rows* in,
                                    const plumbline_rows* out, int64_t limit_ns, plumbline_error* error) {
  const int gathers = call->operation == PLUMBLINE_ALL_GATHER || call->operation == PLUMBLINE_GATHER;
  const int scatters = call->operation == PLUMBLINE_REDUCE_SCATTER || call->operation == PLUMBLINE_SCATTER;
  const int exchanges = call->operation == PLUMBLINE_ALL_TO_ALL;
  const int64_t size = element_size[call->dtype];
  const int64_t in_count = call->in == NULL ? 0 : call->count * (scatters || exchanges ? group->ranks : 1);
  const int64_t out_count = call->out == NULL ? 0 : call->count * (gathers || exchanges ? group->ranks : 1);
  plumbline_call packed = *call;
  char* from = get((size_t)(in_count * size) + 1);
  char* to = get((size_t)(out_count * size) + 1);
  copy_rows(from, (char*)(uintptr_t)call->in, in, in_count, size, 1);
  copy_rows(to, call->out, out, out_count, size, 1); /* of a broadcast, what is sent */
  packed.in = from;
  packed.out = to;
  plumbline_status status = run(group, &packed, limit_ns, error);
  if (status == PLUMBLINE_OK) copy_rows(to, call->out, out, out_count, size, 0);
  free(from);
  free(to);
  return status;
}

/* ---- Blocks of any lengths: a message for each member, of which those of length 0 are sent, too. */

static int64_t begin_of(const int64_t* counts, int member) {
  int64_t begin = 0;
  for (int before = 0; before < member; ++before) begin += counts[before];
  return begin;
}
/* Elements that member `from` has for this one, or this one for it. */
static int64_t taken(const plumbline_group* group, const plumbline_uneven_call* call, int from) {
  return call->out_counts != NULL ? call->out_counts[from] : call->in_counts[group->rank];
}
static void send_blocks(plumbline_group* group, const plumbline_uneven_call* call, int64_t number) {
  const int64_t size = element_size[call->dtype];
  for (int to = 0; to < group->ranks; ++to) {
    int64_t begin = call->in_counts == NULL ? 0 : begin_of(call->in_counts, to) * size;
    int64_t bytes = (call->in_counts == NULL ? call->out_counts[group->rank] : call->in_counts[to]) * size;
    send_frame(group, to, number, bytes == 0 ? NULL : (const char*)call->in + begin, bytes);
  }
}
static plumbline_status finish_uneven(plumbline_group* group, const plumbline_uneven_call* call, frame** from,
                                      plumbline_error* error) {
  const int64_t size = element_size[call->dtype];
  plumbline_call sum = {.operation = call->operation, .dtype = call->dtype, .reduction = call->reduction};
  for (int member = 0; member < group->ranks; ++member)
    if (from[member]->header.bytes != taken(group, call, member) * size)
      return fail(group, error, PLUMBLINE_MISMATCH, "a member sent another length");
  if (call->reduction == 0) {
    char* out = call->out;
    for (int member = 0; member < group->ranks; out += from[member++]->header.bytes)
      if (from[member]->header.bytes > 0) memcpy(out, from[member] + 1, (size_t)from[member]->header.bytes);
    return PLUMBLINE_OK;
  }
  if ((sum.count = call->in_counts[group->rank]) == 0) return PLUMBLINE_OK;
  for (int member = 1; member < group->ranks; ++member) fold(&sum, from[0] + 1, from[member] + 1);
  if (call->reduction == PLUMBLINE_AVG) divide(&sum, from[0] + 1, group->ranks);
  memcpy(call->out, from[0] + 1, (size_t)(sum.count * size));
  return PLUMBLINE_OK;
}
static plumbline_status run_uneven(plumbline_group* group, const plumbline_uneven_call* call, int64_t limit_ns,
                                   plumbline_error* error) {
  plumbline_context* context = group->context;
  const int64_t number = group->collectives, begin = now();
  frame* from[MAX_RANKS] = {NULL};
  plumbline_status status = PLUMBLINE_OK;
  if (group->failure != NULL) return fail(group, error, PLUMBLINE_PEER_FAILED, group->failure);
  ++group->collectives;
  send_blocks(group, call, number);
  while (status == PLUMBLINE_OK) {
    int missing = 0, gone = 0;
    for (int member = 0; member < group->ranks; ++member) {
      const int rank = group->world[member];
      if (from[member] == NULL) from[member] = take(&context->in[rank], group->id, number);
      missing += from[member] == NULL || (context->out[rank] != NULL && context->socket[rank] >= 0);
      gone += from[member] == NULL && is_gone(group, member);
    }
    error->missing_count = 0; /* those that have ended, or, if there are none, all that have not arrived */
    for (int member = 0; member < group->ranks; ++member)
      if (from[member] == NULL && (gone == 0 || is_gone(group, member)))
        error->missing[error->missing_count++] = member;
    if (gone > 0) status = fail_without(group, error);
    if (missing == 0 || status != PLUMBLINE_OK) break;
    int64_t left = limit_ns < 0 ? INT64_MAX : limit_ns - (now() - begin);
    if (left <= 0)
      status = fail(group, error, PLUMBLINE_TIMEOUT, "the time limit passed");
    else
      progress(context, left < 50000000 ? (int)(left / 1000000) : 50);
  }
  if (status == PLUMBLINE_OK) status = finish_uneven(group, call, from, error);
  if (status != PLUMBLINE_OK) take_copies(group);
  for (int member = 0; member < group->ranks; ++member) free(from[member]);
  return status;
}

/* ---- Groups and the job. */

static plumbline_status new_group(plumbline_context* context, const plumbline_group_info* info,
                                  plumbline_group** group) {
  plumbline_group* one = *group = get(sizeof *one);
  one->context = context;
  one->id = info->id;
  one->rank = info->rank;
  one->ranks = info->ranks;
  for (int member = 0; member < info->ranks; ++member) one->world[member] = info->world_ranks[member];
  return PLUMBLINE_OK;
}
static plumbline_status world(plumbline_context* context, const plumbline_group_info* info, plumbline_group** group,
                              plumbline_error* error) {
  (void)error;
  return new_group(context, info, group);
}
static plumbline_status create_group(plumbline_group* parent, const plumbline_group_info* info, plumbline_group** group,
                                     plumbline_error* error) {
  (void)error;
  return new_group(parent->context, info, group);
}
/* Frames of the old group have another id, and stay where they are. Who has ended is seen by the first call. */
static plumbline_status shrink(plumbline_group* parent, const plumbline_group_info* info, plumbline_group** group,
                               plumbline_error* error) {
  (void)error;
  return new_group(parent->context, info, group);
}
/* Every two ranks of the job are connected: newcomers need no words. */
static plumbline_status grow(plumbline_context* context, plumbline_group* parent, const char* words,
                             const plumbline_group_info* info, plumbline_group** group, plumbline_error* error) {
  (void)parent, (void)words, (void)error;
  return new_group(context, info, group);
}
static plumbline_status register_memory(plumbline_group* group, void* memory, size_t bytes, uint64_t* registration,
                                        plumbline_error* error) {
  (void)error;
  struct registration* one = get(sizeof *one);
  one->next = group->registered;
  one->number = *registration = ++group->registrations;
  one->begin = memory;
  one->bytes = bytes;
  group->registered = one;
  return PLUMBLINE_OK;
}
static plumbline_status deregister_memory(plumbline_group* group, uint64_t registration, plumbline_error* error) {
  for (struct registration** at = &group->registered; *at != NULL; at = &(*at)->next)
    if ((*at)->number == registration) {
      struct registration* ended = *at;
      *at = ended->next;
      free(ended);
      return PLUMBLINE_OK;
    }
  return fail(NULL, error, PLUMBLINE_INVALID_ARGUMENT, "it is no registration of the group, or has ended");
}
static void destroy_group(plumbline_group* group) {
  while (group->registered != NULL) {
    struct registration* ended = group->registered;
    group->registered = ended->next;
    free(ended);
  }
  free(group);
}

static int connect_to(const struct sockaddr_un* address) {
  for (int tries = 0; tries < 30000; ++tries) { /* the peer may not listen yet */
    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    if (one >= 0 && connect(one, (const struct sockaddr*)address, sizeof *address) == 0) return one;
    close(one);
    poll(NULL, 0, 1);
  }
  return -1;
}
/* Connects to the ranks below this one and accepts the ranks above it, who say which they are. */
static int connect_all(plumbline_context* context, const char* scratch) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  for (int32_t peer = context->rank; peer >= 0; --peer) {
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/rank%d", scratch, (int)peer);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) return 0;
    if (peer == context->rank) {
      if (bind(listener, (struct sockaddr*)&address, sizeof address) != 0 || listen(listener, MAX_RANKS) != 0) return 0;
      continue;
    }
    int32_t self = context->rank;
    context->socket[peer] = connect_to(&address);
    if (context->socket[peer] < 0 || write(context->socket[peer], &self, sizeof self) != sizeof self) return 0;
  }
  for (int above = context->rank + 1; above < context->ranks; ++above) {
    int32_t peer = -1;
    struct pollfd arrival = {listener, POLLIN, 0};
    if (poll(&arrival, 1, 30000) != 1) return 0; /* a rank that does not start must not hold the others for ever */
    int one = accept(listener, NULL, NULL);
    if (one < 0 || read(one, &peer, sizeof peer) != sizeof peer || peer <= context->rank || peer >= context->ranks)
      return 0;
    context->socket[peer] = one;
  }
  close(listener);
  for (int rank = 0; rank < context->ranks; ++rank)
    if (rank != context->rank) fcntl(context->socket[rank], F_SETFL, O_NONBLOCK);
  return 1;
}
static void close_job(plumbline_context* context) {
  for (int rank = 0; rank < context->ranks; ++rank)
    if (context->socket[rank] >= 0) close(context->socket[rank]);
  free(context);
}
static plumbline_status open_job(const plumbline_job* job, plumbline_context** context, plumbline_error* error) {
  if (job->option_count > 0) return fail(NULL, error, PLUMBLINE_INVALID_ARGUMENT, "there are no options");
  if (job->ranks > MAX_RANKS) return fail(NULL, error, PLUMBLINE_UNSUPPORTED, "at most 64 ranks are supported");
  plumbline_context* one = get(sizeof *one);
  one->rank = job->rank;
  one->ranks = job->ranks;
  for (int rank = 0; rank < MAX_RANKS; ++rank) one->socket[rank] = -1;
  if (job->ranks > 1 && !connect_all(one, job->scratch)) {
    close_job(one);
    return fail(NULL, error, PLUMBLINE_FAILURE, "the ranks cannot connect by sockets in the scratch folder");
  }
  *context = one;
  return PLUMBLINE_OK;
}

const plumbline_backend* plumbline_backend_get(void) {
  static const plumbline_backend backend = {
      .version = PLUMBLINE_BACKEND_VERSION,
      .size = sizeof(plumbline_backend),
      .claims = PLUMBLINE_CLAIM_COALESCING | PLUMBLINE_CLAIM_WAIT_TIMEOUT | PLUMBLINE_CLAIM_BLOCKING_TIMEOUT |
                PLUMBLINE_CLAIM_NAMES_MISSING | PLUMBLINE_CLAIM_RANK_ORDER | PLUMBLINE_CLAIM_EQUAL_RESULTS |
                PLUMBLINE_CLAIM_BOOL_REDUCTIONS | PLUMBLINE_CLAIM_COMPLEX_SUMS | PLUMBLINE_CLAIM_COMPLEX_PRODUCTS,
      .name = "unix_sockets",
      .library_version = "Unix sockets 1.0",
      .notes = "calls make progress only while a rank is inside the library",
      .dtypes = PLUMBLINE_BIT(PLUMBLINE_F32) | PLUMBLINE_BIT(PLUMBLINE_F64) | PLUMBLINE_BIT(PLUMBLINE_I32) |
                PLUMBLINE_BIT(PLUMBLINE_I64) | PLUMBLINE_BIT(PLUMBLINE_U8) | PLUMBLINE_OPTIONAL_DTYPES |
                PLUMBLINE_COMPLEX_DTYPES,
      .operations = PLUMBLINE_ALL_OPERATIONS,
      .reductions = PLUMBLINE_ALL_REDUCTIONS,
      .open = open_job,
      .close = close_job,
      .world = world,
      .create_group = create_group,
      .destroy_group = destroy_group,
      .run = run,
      .start = start,
      .test = test,
      .wait = wait,
      .drop = drop,
      .uneven_operations = PLUMBLINE_BIT(PLUMBLINE_ALL_GATHER) | PLUMBLINE_BIT(PLUMBLINE_REDUCE_SCATTER) |
                           PLUMBLINE_BIT(PLUMBLINE_ALL_TO_ALL),
      .run_uneven = run_uneven,
      .run_scaled = run_scaled,
      .shrink = shrink,
      .run_strided = run_strided,
      .register_memory = register_memory,
      .deregister_memory = deregister_memory,
      .grow = grow};
  return &backend;
}
