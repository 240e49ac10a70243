/* plumbline_backend.h: the C interface between Plumbline and a communication library that it tests.
 *
 * Use     A library exports plumbline_backend_get(). `plumbline check --backend plugin:./libacme.so`
 *         opens the library with dlopen(RTLD_NOW | RTLD_LOCAL) in one process per rank, reads the
 *         struct that the function returns, and makes every call through its function pointers.
 *         The header is C99 and C++, and includes only <stddef.h> and <stdint.h>.
 * Ranks   Plumbline starts one process per rank and passes rank, ranks and scratch to open(). Ranks
 *         that a launcher started may be on several hosts; scratch is then a folder that these share.
 *         A job ends with its processes; after a failed check the next check gets new processes and a
 *         new scratch folder. Standard output and standard error
 *         of a process go to a file, whose end is shown with a failed verdict.
 * Model   A group is an ordered set of ranks. Every member of a group calls the collectives of that
 *         group in the same order. Calls on different groups never match, in whatever order members
 *         make them. A blocking call (run) and a started call (start) of the same collective match.
 * Shapes  n ranks, `count` = c elements:
 *           all_reduce      in [c]    out [c]      reduce        in [c]    out [c] at root
 *           reduce_scatter  in [n*c]  out [c]      broadcast     out [c], sent from root's out
 *           all_gather      in [c]    out [n*c]    gather        in [c]    out [n*c] at root
 *           all_to_all      in [n*c]  out [n*c]    scatter       in [n*c] at root   out [c]
 *           barrier         no data                send, recv    in [c], out [c]; root is the peer
 *         In place: out equals in (all_reduce, reduce, all_to_all), or the rank's own block of the
 *         larger buffer is the smaller buffer (all_gather, reduce_scatter; gather and scatter at the
 *         root). No other overlap occurs.
 * Memory  Host memory only. Later versions of this header add device memory: functions at the end of
 *         plumbline_backend, which `size` announces, and other values of plumbline_call.device.
 *         The side that allocates an object frees it: Plumbline owns all buffers, strings, lists and structs
 *         that it passes, and they are valid until the function returns; only the buffers of started
 *         calls are valid until the work is complete or dropped. The library owns contexts, groups
 *         and works until close, destroy_group and drop. The struct and its strings stay valid until
 *         the process ends; the library is never unloaded.
 * Threads One thread at a time uses a group and its works, not always the same thread. Unless
 *         PLUMBLINE_CLAIM_THREAD_MULTIPLE is set, one thread at a time is inside the library. The only
 *         exception is abort, which any thread may call at any time.
 * Units   Time limits are nanoseconds, PLUMBLINE_NO_LIMIT means none. Counts are elements.
 * Errors  A function that can fail returns a PLUMBLINE_ status and describes the error in *error.
 *         INVALID_ARGUMENT and UNSUPPORTED mean that the call had no effect. MISMATCH, TIMEOUT,
 *         PEER_FAILED and FAILURE mean that the group has failed: every later call on it returns
 *         PEER_FAILED. Other groups continue to work. What a function returns through a pointer counts
 *         with PLUMBLINE_OK only: after another status the library itself frees what it made. Plumbline
 *         validates arguments (null pointers, counts, roots, peers, tags, overlaps, rank lists, averages
 *         of integers) before a call.
 * Faults  A status that is not listed here and a C++ exception count as FAILURE; an exception out of a
 *         function without a status is a crash. A function that exits, crashes or does not return fails
 *         the check that called it, and no other check.
 * Uneven  all_gather, reduce_scatter and all_to_all also exist with blocks of any lengths, 0 included, one
 *         for each rank, in the order of the ranks without gaps: see plumbline_uneven_call. all_to_all has
 *         no in-place form of these; all_gather and reduce_scatter have.
 * Rows    Every operation but barrier also exists on buffers whose rows have gaps between them: see plumbline_rows.
 * Missing A null function pointer is a capability that the library does not have:
 *           start         nonblocking and coalescing calls (test, wait and drop belong to it)
 *           create_group  groups
 *           abort         an abort then fails the group on the calling rank only
 *           run_uneven    the operations with blocks of any lengths
 *           run_scaled    sums of inputs that each rank multiplies by a factor (NCCL: PreMulSum)
 *           run_strided   calls on rows with gaps between them
 *           shrink        groups of the members that are left when others have ended (NCCL: ncclCommShrink)
 *           register_memory, deregister_memory   memory that is prepared for calls (NCCL: ncclCommRegister)
 *           allocate, deallocate   memory of the library's own (NCCL: ncclMemAlloc; MPI: MPI_Alloc_mem)
 *           grow          groups that take in ranks which were no members (NCCL: ncclCommGrow); with or without invite
 *         An operation, dtype or reduction that is not in its mask is rejected as unsupported before
 *         the library is called. Checks that need a missing capability are skipped; profile
 *         `collectives` fails without start, create_group, send, recv, PLUMBLINE_CLAIM_COALESCING and
 *         PLUMBLINE_CLAIM_WAIT_TIMEOUT, and expects all collectives and all reductions.
 * Version PLUMBLINE_BACKEND_VERSION increases when the meaning or the layout of existing fields
 *         changes; Plumbline rejects any other version. New fields are added at the end: a library that
 *         was built without them has a smaller size, and lacks what they are for.
 */
#ifndef PLUMBLINE_BACKEND_H
#define PLUMBLINE_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLUMBLINE_BACKEND_VERSION 1u
#define PLUMBLINE_NO_LIMIT (-1)

/* Status of a call. */
enum {
  PLUMBLINE_OK = 0,
  PLUMBLINE_INVALID_ARGUMENT = 1, /* an argument that no call may have */
  PLUMBLINE_UNSUPPORTED = 2,      /* a legal call that the library cannot make */
  PLUMBLINE_MISMATCH = 3,         /* members made different calls as the same step */
  PLUMBLINE_TIMEOUT = 4,          /* the limit passed; error->missing lists the ranks waited for */
  PLUMBLINE_PEER_FAILED = 5,      /* another member failed or left, or an earlier call failed */
  PLUMBLINE_FAILURE = 6           /* the library or the system below it failed */
};
typedef int32_t plumbline_status;

/* Element types. f16 is IEEE 754 binary16; bf16 is the upper half of binary32. bool is a byte, 0 or 1. The formats of 8
 * bits are OCP's E4M3 (PyTorch's float8_e4m3fn, without infinity) and E5M2. c64 and c128 are complex numbers: the real
 * part, then the imaginary part, each an f32 or an f64 (C's float _Complex and double _Complex). A library that has one
 * of the last five moves its elements, and reduces them only with the claim for that: PLUMBLINE_CLAIM_BOOL_REDUCTIONS,
 * PLUMBLINE_CLAIM_FLOAT8_REDUCTIONS, PLUMBLINE_CLAIM_COMPLEX_SUMS or PLUMBLINE_CLAIM_COMPLEX_PRODUCTS. */
enum {
  PLUMBLINE_F16 = 1,
  PLUMBLINE_BF16 = 2,
  PLUMBLINE_F32 = 3,
  PLUMBLINE_F64 = 4,
  PLUMBLINE_I32 = 5,
  PLUMBLINE_I64 = 6,
  PLUMBLINE_U8 = 7,
  PLUMBLINE_BOOL = 8, /* since suite 0.2, like those that follow */
  PLUMBLINE_F8_E4M3 = 9,
  PLUMBLINE_F8_E5M2 = 10,
  PLUMBLINE_C64 = 11,
  PLUMBLINE_C128 = 12
};

/* Operations. */
enum {
  PLUMBLINE_ALL_REDUCE = 1,
  PLUMBLINE_REDUCE = 2,
  PLUMBLINE_BROADCAST = 3,
  PLUMBLINE_REDUCE_SCATTER = 4,
  PLUMBLINE_ALL_GATHER = 5,
  PLUMBLINE_ALL_TO_ALL = 6,
  PLUMBLINE_GATHER = 7,
  PLUMBLINE_SCATTER = 8,
  PLUMBLINE_BARRIER = 9,
  PLUMBLINE_SEND = 10,
  PLUMBLINE_RECV = 11
};

/* Reductions. The accumulator is the element type, and f32 for f16, bf16 and the formats of 8 bits unless
 * PLUMBLINE_CLAIM_ROUNDS_EACH_HALF_ADDITION is set. An average is the sum, then one division in the
 * accumulator. Integer sums and products wrap. Of bool, MIN is AND and MAX is OR; it has no
 * other. Complex numbers have no MIN and no MAX: SUM and AVG are those of their parts, PRODUCT is the complex one. */
enum { PLUMBLINE_SUM = 1, PLUMBLINE_AVG = 2, PLUMBLINE_MIN = 3, PLUMBLINE_MAX = 4, PLUMBLINE_PRODUCT = 5 };

/* Where memory is. */
enum { PLUMBLINE_HOST = 0 };

/* The bit of a dtype, an operation or a reduction in its mask. */
#define PLUMBLINE_BIT(value) (UINT32_C(1) << (value))
#define PLUMBLINE_ALL_DTYPES UINT32_C(0xfe)       /* f16 to u8 */
#define PLUMBLINE_OPTIONAL_DTYPES UINT32_C(0x700) /* bool and the formats of 8 bits */
#define PLUMBLINE_COMPLEX_DTYPES UINT32_C(0x1800)
#define PLUMBLINE_ALL_OPERATIONS UINT32_C(0xffe)
#define PLUMBLINE_ALL_REDUCTIONS UINT32_C(0x3e)

/* What the library guarantees beyond its functions. A claim that does not hold is a failed check. */
enum {
  PLUMBLINE_CLAIM_COALESCING = 0x1,                  /* start accepts several calls */
  PLUMBLINE_CLAIM_WAIT_TIMEOUT = 0x2,                /* wait returns TIMEOUT at its limit, never before */
  PLUMBLINE_CLAIM_BLOCKING_TIMEOUT = 0x4,            /* so does run */
  PLUMBLINE_CLAIM_NAMES_MISSING = 0x8,               /* error->missing has exactly the members that never arrived */
  PLUMBLINE_CLAIM_MISUSE_DETECTION = 0x10,           /* members that disagree on a call all get MISMATCH */
  PLUMBLINE_CLAIM_FAILURE_DETECTION = 0x20,          /* a failed or departed member: PEER_FAILED at once */
  PLUMBLINE_CLAIM_RANK_ORDER = 0x40,                 /* reductions add in rank order */
  PLUMBLINE_CLAIM_EQUAL_RESULTS = 0x80,              /* a reduction has the same bits on all ranks */
  PLUMBLINE_CLAIM_THREAD_MULTIPLE = 0x100,           /* threads may use different groups at once */
  PLUMBLINE_CLAIM_ROUNDS_EACH_HALF_ADDITION = 0x200, /* f16, bf16 and formats of 8 bits are their own accumulator */
  PLUMBLINE_CLAIM_BOOL_REDUCTIONS = 0x400,           /* since suite 0.2: MIN and MAX of bool */
  PLUMBLINE_CLAIM_FLOAT8_REDUCTIONS = 0x800,         /* since suite 0.2: reductions of the formats of 8 bits */
  PLUMBLINE_CLAIM_COMPLEX_SUMS = 0x1000,             /* since suite 0.2: SUM and AVG of c64 and c128 */
  PLUMBLINE_CLAIM_COMPLEX_PRODUCTS = 0x2000          /* since suite 0.2: PRODUCT of c64 and c128, with its bit */
};

/* The library's own objects. */
typedef struct plumbline_context plumbline_context; /* one per process */
typedef struct plumbline_group plumbline_group;     /* one rank's handle on a group */
typedef struct plumbline_work plumbline_work;       /* started calls */

/* Where a function describes its error. Plumbline provides it, never null, and reads it only after a
 * status other than PLUMBLINE_OK. */
typedef struct plumbline_error {
  char* message; /* room for message_capacity bytes; one line, ends with a null byte; may stay empty */
  size_t message_capacity;
  /* Room for missing_capacity ranks, positions in the group: those that a TIMEOUT waited for. Of a PEER_FAILED, those
   * that have ended; read only of a library that has shrink. */
  int32_t* missing;
  int32_t missing_capacity; /* at least the size of the group */
  int32_t missing_count;    /* set by the library, initially 0 */
} plumbline_error;

/* --backend-option KEY=VALUE. */
typedef struct plumbline_option {
  const char* key;
  const char* value;
} plumbline_option;

/* The job that a process belongs to. */
typedef struct plumbline_job {
  int32_t rank;        /* of this process, from 0 */
  int32_t ranks;       /* of the job */
  const char* scratch; /* a folder, initially without files of the library, that all ranks share */
  const plumbline_option* options;
  size_t option_count;
} plumbline_job;

/* A group to be created. */
typedef struct plumbline_group_info {
  uint64_t id;                 /* equal on all members, different for all groups of a job */
  int32_t rank;                /* this process' position in the group */
  int32_t ranks;               /* size of the group */
  const int32_t* world_ranks;  /* the members, as ranks of the job, in group order */
  const int32_t* parent_ranks; /* the same as positions in the parent; null for world */
  const char* name;            /* for messages: "world", "[0 2]" */
} plumbline_group_info;

/* A call. A buffer that this rank does not use in it (see Shapes) is null; with a count of 0 a used
 * one may be null, too. Buffers are aligned to their elements, to no more. */
typedef struct plumbline_call {
  int32_t operation;
  int32_t dtype;     /* of barrier: PLUMBLINE_U8 */
  int32_t reduction; /* of all_reduce, reduce and reduce_scatter, else 0 */
  int32_t root;      /* position in the group: root, or peer of send and recv; else -1 */
  int32_t tag;       /* of send and recv, 0 or more; else 0 */
  int32_t device;    /* PLUMBLINE_HOST */
  int64_t count;     /* c, see Shapes */
  const void* in;
  void* out;
  void* stream;         /* null: reserved for device memory */
  int32_t device_index; /* 0: reserved for device memory */
  int32_t reserved;     /* 0 */
} plumbline_call;

/* A collective whose blocks differ in length, of rank r, counts in elements:
 *   all_gather      in [out_counts[r]]     out [sum of out_counts]   out_counts is the same on all ranks
 *   reduce_scatter  in [sum of in_counts]  out [in_counts[r]]        in_counts is the same on all ranks
 *   all_to_all      in [sum of in_counts]  out [sum of out_counts]   in_counts[p] is out_counts[r] of rank p
 * A buffer of 0 elements may be null. */
typedef struct plumbline_uneven_call {
  int32_t operation; /* PLUMBLINE_ALL_GATHER, PLUMBLINE_REDUCE_SCATTER, PLUMBLINE_ALL_TO_ALL */
  int32_t dtype;
  int32_t reduction; /* of reduce_scatter, else 0 */
  int32_t device;    /* PLUMBLINE_HOST */
  const void* in;
  void* out;
  const int64_t* in_counts;  /* one for each rank; of all_gather null */
  const int64_t* out_counts; /* one for each rank; of reduce_scatter null */
  void* stream;              /* null: reserved for device memory */
  int32_t device_index;      /* 0: reserved for device memory */
  int32_t reserved;          /* 0 */
} plumbline_uneven_call;

/* Where the elements of a buffer lie: element i is at index i / columns * stride + i % columns, with
 * 1 <= columns <= stride. The element count is a multiple of columns. */
typedef struct plumbline_rows {
  int64_t columns;
  int64_t stride;
} plumbline_rows;

typedef struct plumbline_backend {
  uint32_t version; /* PLUMBLINE_BACKEND_VERSION */
  uint32_t claims;  /* PLUMBLINE_CLAIM_ bits */
  size_t size;      /* sizeof(plumbline_backend) */

  const char* name;            /* "acme" */
  const char* library_version; /* "Acme Collectives 2.1", for the record */
  const char* notes;           /* known limits, one per line, for the record; may be null */
  uint32_t dtypes;             /* PLUMBLINE_BIT of each element type */
  uint32_t operations;         /* PLUMBLINE_BIT of each operation */
  uint32_t reductions;         /* PLUMBLINE_BIT of each reduction */
  uint32_t reserved;           /* 0 */

  /* Starts the library in this process, once, before all other functions. All ranks of the job call
   * it, and it may wait for them. Returns the context in *context. Required. */
  plumbline_status (*open)(const plumbline_job* job, plumbline_context** context, plumbline_error* error);
  /* Ends it, when no group is left. Not called where a process is killed. Required. */
  void (*close)(plumbline_context* context);

  /* Creates a group of the job's first info->ranks ranks, another one at each call. Collective over
   * them. Required. */
  plumbline_status (*world)(plumbline_context* context, const plumbline_group_info* info, plumbline_group** group,
                            plumbline_error* error);
  /* Creates a group of members of `parent`, in the order of the list. Collective over the members of
   * the new group only. */
  plumbline_status (*create_group)(plumbline_group* parent, const plumbline_group_info* info, plumbline_group** group,
                                   plumbline_error* error);
  /* Frees a group, failed or not, when none of its works is left. Not collective: it must not wait
   * for other members. Groups created from it stay usable. Required. */
  void (*destroy_group)(plumbline_group* group);

  /* Makes a call and returns when this rank's buffers may be used again and `out` is filled. With a
   * limit and PLUMBLINE_CLAIM_BLOCKING_TIMEOUT it returns TIMEOUT when the limit has passed. Required. */
  plumbline_status (*run)(plumbline_group* group, const plumbline_call* call, int64_t limit_ns, plumbline_error* error);

  /* Starts `count` calls, 1 or more, that take effect in their order, and returns without waiting for
   * other members. Sends and receives among them cannot deadlock. The list is copied if needed. */
  plumbline_status (*start)(plumbline_group* group, const plumbline_call* calls, size_t count, plumbline_work** work,
                            plumbline_error* error);
  /* Sets *complete to 1 if all calls of the work are complete, else to 0. Never blocks. Calling it
   * repeatedly must complete the work. */
  plumbline_status (*test)(plumbline_work* work, int32_t* complete, plumbline_error* error);
  /* Returns when the work is complete, or TIMEOUT when the limit has passed. */
  plumbline_status (*wait)(plumbline_work* work, int64_t limit_ns, plumbline_error* error);
  /* Frees a work, exactly once. Dropping an unfinished work fails its group on this rank. Never blocks. */
  void (*drop)(plumbline_work* work);

  /* Fails the group with that reason on all members that the library can reach, also while another
   * thread is in a call on it. The reason is in the messages of the PEER_FAILED that follow. Plumbline
   * aborts groups created from it by calls of their own. Never blocks. */
  void (*abort)(plumbline_group* group, const char* reason);

  /* ---- Since suite 0.2; a library whose size ends here has none of it. */

  uint32_t uneven_operations; /* PLUMBLINE_BIT of each operation that run_uneven makes */
  uint32_t reserved_2;        /* 0 */
  /* Makes a collective with blocks of any lengths; returns as run does. */
  plumbline_status (*run_uneven)(plumbline_group* group, const plumbline_uneven_call* call, int64_t limit_ns,
                                 plumbline_error* error);

  /* Makes an all_reduce, reduce or reduce_scatter of PLUMBLINE_SUM in which this rank's input is multiplied by `factor`
   * before it is added; returns as run does. Each rank gives a factor of its own, which may be rounded to the dtype: one
   * of f16, bf16, f32 and f64, whose largest number no finite factor passes. All members call this function. */
  plumbline_status (*run_scaled)(plumbline_group* group, const plumbline_call* call, double factor, int64_t limit_ns,
                                 plumbline_error* error);

  /* Creates the group of those members of `parent` that are left when others have ended, in the order of the list, and
   * returns as create_group does. `parent` may have failed, and stays as it is. Collective over the members of the new
   * group only. A library that has it names each member that has ended in error->missing of the PEER_FAILED that the
   * first call that waits for it returns. */
  plumbline_status (*shrink)(plumbline_group* parent, const plumbline_group_info* info, plumbline_group** group,
                             plumbline_error* error);

  /* Makes a call whose buffers lie in those rows; returns as run does. Counts, blocks and results are those of the call
   * on copies without gaps. What lies between the rows is neither read nor written. In place (see Shapes), the elements
   * of the result lie where those of the input do; no other elements of in and out are the same, and one may lie in the
   * gaps of the other. Each rank has rows of its own. All members call this function; a send or receive matches every
   * other. */
  plumbline_status (*run_strided)(plumbline_group* group, const plumbline_call* call, const plumbline_rows* in,
                                  const plumbline_rows* out, int64_t limit_ns, plumbline_error* error);

  /* Prepares `bytes` of the caller's memory, 1 or more, for calls of the group; both functions or none. Not collective:
   * other members may have registered theirs or not. Calls on all of the memory or a part of it do what they do on other
   * memory. *registration is not 0 and no other one of this group that has not ended; the same memory may be registered
   * more than once. destroy_group ends what is left. */
  plumbline_status (*register_memory)(plumbline_group* group, void* memory, size_t bytes, uint64_t* registration,
                                      plumbline_error* error);
  /* Ends a registration, when no call on the memory is under way: its owner may use, unmap and register it again.
   * INVALID_ARGUMENT for what is no registration of the group, or has ended. */
  plumbline_status (*deregister_memory)(plumbline_group* group, uint64_t registration, plumbline_error* error);

  /* Returns `bytes` of memory, 1 or more, of any content for calls of the group, aligned to 16 bytes; both functions or
   * none. Not collective. All of it is given back before destroy_group. */
  plumbline_status (*allocate)(plumbline_group* group, size_t bytes, void** memory, plumbline_error* error);
  void (*deallocate)(plumbline_group* group, void* memory);

  /* Writes what newcomers need to join a group that is made from this one: one line of fewer than `capacity` bytes,
   * initially empty, which ends with a null byte. One member calls it, and Plumbline hands the words to all who call
   * grow. Null: newcomers need none. */
  plumbline_status (*invite)(plumbline_group* group, char* words, size_t capacity, plumbline_error* error);
  /* Creates the group of all members of `parent`, in their order, and after them the newcomers, and returns as
   * create_group does. Collective over the members of the new group. A newcomer has no handle on the old one: its
   * `parent` is null. info->parent_ranks is null. The old group stays usable. */
  plumbline_status (*grow)(plumbline_context* context, plumbline_group* parent, const char* words,
                           const plumbline_group_info* info, plumbline_group** group, plumbline_error* error);
} plumbline_backend;

/* Returns the library's description. The only symbol that Plumbline looks for. Must not start the
 * library: that is what open() is for. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const plumbline_backend* plumbline_backend_get(void);

#ifdef __cplusplus
}
#endif

#endif /* PLUMBLINE_BACKEND_H */
