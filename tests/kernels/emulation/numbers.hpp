// Stands in for CUDA and TileLang's device templates, so that a warp-specialised kernel's text computes on a CPU. Each
// CUDA thread is a fiber; clusters of blocks run one after another. A load arrives some rounds after it was issued, and a WGMMA
// reads shared memory as late as it may: when it is waited for. So a missing wait shows as a wrong number.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define CUDART_INF_F INFINITY
using std::max;
using std::min;
using uchar = unsigned char;

struct bfloat16_t {
  uint16_t bits = 0;
  bfloat16_t() = default;
  bfloat16_t(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    if (std::isnan(value)) bits = 0x7fff;
    else bits = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
  }
  operator float() const {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};
struct __nv_bfloat162 { bfloat16_t x, y; };
struct uint1 { unsigned x; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline unsigned __pack_nv_bfloat162(bfloat16_t x, bfloat16_t y) { return x.bits | unsigned(y.bits) << 16; }
inline unsigned __pack_half2(bfloat16_t x, bfloat16_t y) { return __pack_nv_bfloat162(x, y); }
template <typename Operation> inline unsigned of_pairs(unsigned a, unsigned b, Operation operation) {
  bfloat16_t left[2], right[2];
  std::memcpy(left, &a, 4), std::memcpy(right, &b, 4);
  return __pack_nv_bfloat162(operation(left[0], right[0]), operation(left[1], right[1]));
}
inline unsigned sub_pairs(unsigned a, unsigned b) { return of_pairs(a, b, [](float x, float y) { return x - y; }); }
inline unsigned mul_pairs(unsigned a, unsigned b) { return of_pairs(a, b, [](float x, float y) { return x * y; }); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t both = x | uint64_t(y) << 32;
  unsigned found = 0;
  for (int each = 0; each < 4; ++each) found |= unsigned(both >> 8 * (selector >> 4 * each & 7) & 255) << 8 * each;
  return found;
}
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {bfloat16_t(v.x), bfloat16_t(v.y)}; }

struct Index { int x = 0, y = 0, z = 0; };
inline Index threadIdx, blockIdx, grid;

// Fibers: one for each thread of the cluster that runs. ``running`` is a thread's number in the cluster.
// One that waits is resumed when its condition holds.
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool done = false;
  const std::string* waits = nullptr;  // its words
  const void* condition = nullptr;
  bool (*holds)(const void*) = nullptr;
};
inline ucontext_t scheduler;
inline std::vector<Fiber> fibers;
inline int running = -1;
inline bool progress = false;
inline std::vector<std::pair<int, std::function<void()>>> under_way;  // loads, with the rounds until they arrive
inline std::mt19937 dice{12345};

inline bool in_fiber = false;
inline uchar *memories, *shared_memory;  // of all blocks of the cluster, and of the block that runs
constexpr int SHARED_BYTES = 1 << 18;
inline int block_threads, first_block;
inline int rank() { return running / block_threads; }
inline std::string wrong;  // what failed first
[[noreturn]] inline void fail(const std::string& what) {
  if (wrong.empty()) wrong = what;
  while (in_fiber) swapcontext(&fibers[running].context, &scheduler);
  throw std::runtime_error(what);
}
inline void resume(int fiber) {
  running = fiber, threadIdx.x = fiber % block_threads, in_fiber = true;
  int number = first_block + rank();
  blockIdx = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
  shared_memory = memories + rank() * SHARED_BYTES;
  swapcontext(&scheduler, &fibers[fiber].context);
  in_fiber = false;
  if (!wrong.empty()) fail(wrong);
}

inline void yield() {
  int mine = running;
  swapcontext(&fibers[mine].context, &scheduler);
}
template <typename Condition> inline void until(const std::string& what, Condition condition) {
  if (!condition()) {
    Fiber& mine = fibers[running];
    mine.waits = &what, mine.condition = &condition;
    mine.holds = [](const void* held) { return (*static_cast<const Condition*>(held))(); };
    yield();
    mine.holds = nullptr;
  }
  progress = true;
}

struct Meeting { int arrived = 0, round = 0; };
inline std::map<int, Meeting> meetings;
inline void arrive_at(int id, int threads) {
  Meeting& at = meetings[id];
  progress = true;
  if (++at.arrived == threads) at.arrived = 0, ++at.round;
}
inline void meet(int id, int threads) {
  const Meeting& at = meetings[id];
  int round = at.round;
  arrive_at(id, threads);
  until("barrier " + std::to_string(id), [&at, round] { return at.round != round; });
}
inline int named(int id) { return 100 * rank() + id; }
inline void __syncthreads() { meet(named(0), block_threads); }
inline void __syncwarp() { meet(20000 + running / 32, 32); }
inline void cudaGridDependencySynchronize() {}
inline void __threadfence() {}
inline int atomicAdd(int* at, int value) { int old = *at; *at += value; return old; }
inline void atomicAdd(float4* at, float4 value) {
  at->x += value.x, at->y += value.y, at->z += value.z, at->w += value.w;
}
inline int atomicExch(int* at, int value) { int old = *at; *at = value; return old; }

class Barrier {
 public:
  void init(int arrivals) { arrivals_ = pending_ = arrivals; }
  void wait(int parity) { until(name, [=, this] { return (phase_ & 1) != parity; }); }
  void arrive() { change(1, 0); }
  void arrive(int rank) { of(rank).arrive(); }
  Barrier& of(int rank);  // the same one of another block of the cluster
  void arrive_and_expect_tx(int bytes) { bytes_ += bytes, arrive(); }
  void expect_transaction(int bytes) { bytes_ += bytes; }
  void complete(int bytes) { change(0, bytes); }
  std::string name, array;
  int number = 0;

 private:
  void change(int arrivals, int bytes) {
    progress = true;
    pending_ -= arrivals, bytes_ -= bytes;
    if (pending_ < 0) fail("one arrival too many at " + name);
    if (pending_ == 0 && bytes_ == 0) ++phase_, pending_ = arrivals_;
  }
  int arrivals_ = 0, pending_ = 0, bytes_ = 0, phase_ = 0;
};
inline std::map<std::pair<int, std::string>, std::vector<Barrier>> arrays;
inline Barrier& Barrier::of(int rank) { return arrays.at({rank, array})[number]; }
inline Barrier* barriers(const char* name, int count) {
  auto& array = arrays[{rank(), name}];
  if (array.empty()) {
    array.resize(count);
    for (int each = 0; each < count; ++each) {
      array[each].name = std::string(name) + "[" + std::to_string(each) + "]", array[each].array = name;
      array[each].number = each;
    }
  }
  return array.data();
}

inline size_t swizzled(size_t address, int width = 128) { return address ^ (((address >> 7) & (width / 16 - 1)) << 4); }
inline bfloat16_t shared_at(size_t address) {
  if (swizzled(address) + 2 > SHARED_BYTES) fail("a product reads beyond shared memory");
  return *reinterpret_cast<bfloat16_t*>(shared_memory + swizzled(address));
}

struct CUtensorMap {
  uchar* base;
  int bytes;    // of an element
  int swizzle;  // its width in bytes, which is that of a row of the box; 0: none
  std::vector<int64_t> sizes, strides;
  std::vector<int> box;
};

namespace tl {
enum class CacheHintSm90 { EVICT_NORMAL, EVICT_FIRST, EVICT_LAST };
enum class DataType { kBFloat16, kFloat32 };
template <int group> inline bool tl_shuffle_elect() { return group == 0 ? threadIdx.x == 0 : threadIdx.x % group == 0; }
inline void prefetch_tma_descriptor(const CUtensorMap&) {}
inline void fence_barrier_init() {}
inline void fence_proxy_async() {}
inline void __sync_thread_partial(int id, int threads) { meet(named(id), threads); }
inline void __named_barrier_arrive(int id, int threads) { arrive_at(named(id), threads); }
inline int block_rank_in_cluster() { return rank(); }
inline void cluster_sync() { meet(10000, fibers.size()); }
template <int> inline void warpgroup_reg_dealloc() {}
template <int> inline void warpgroup_reg_alloc() {}

template <typename Visit> inline void visit_box(const CUtensorMap& map, const std::vector<int>& at, Visit visit) {
  int total = 1;
  for (int each : map.box) total *= each;
  for (int number = 0; number < total; ++number) {
    int64_t offset = 0;
    bool inside = true;
    for (int rest = number, axis = 0; axis < int(map.box.size()); rest /= map.box[axis], ++axis) {
      int64_t place = at[axis] + rest % map.box[axis];
      inside &= 0 <= place && place < map.sizes[axis];
      offset += place * map.strides[axis];
    }
    visit(number, inside ? map.base + offset * map.bytes : nullptr);
  }
}
inline void load_to(int rank, const CUtensorMap& map, Barrier& barrier, const void* to, std::vector<int> place) {
  uchar* memory = memories + rank * SHARED_BYTES;
  size_t start = static_cast<const uchar*>(to) - shared_memory;
  int width = map.swizzle;
  if (start % 128 || (width && map.box[0] * map.bytes != width)) fail("a load that this does not emulate");
  Barrier* whose = &barrier.of(rank);
  under_way.emplace_back(dice() % 40, [=] {
    int bytes = 0;
    visit_box(map, place, [&](int number, const uchar* from) {
      size_t at = start + map.bytes * number;
      static const uchar nothing[4] = {};
      std::memcpy(memory + (width ? swizzled(at, width) : at), from ? from : nothing, map.bytes);
      bytes += map.bytes;
    });
    whose->complete(bytes);
  });
}
template <CacheHintSm90 = CacheHintSm90::EVICT_NORMAL, typename... At>
inline void tma_load(const CUtensorMap& map, Barrier& barrier, const void* to, At... at) {
  load_to(rank(), map, barrier, to, {int(at)...});
}
inline void tma_load(void* to, const void* from, Barrier& barrier, int bytes) {  // without a map: bytes in a row
  Barrier* whose = &barrier;
  under_way.emplace_back(dice() % 40, [=] { std::memcpy(to, from, bytes), whose->complete(bytes); });
}
template <CacheHintSm90 = CacheHintSm90::EVICT_NORMAL, typename... At>
inline void tma_load_multicast(const CUtensorMap& map, Barrier& barrier, const void* to, uint16_t ranks, At... at) {
  for (int each = 0; ranks >> each; ++each) if (ranks >> each & 1) load_to(each, map, barrier, to, {int(at)...});
}
// A thread's copies to shared memory; like loads, they arrive some rounds later.
inline std::map<int, int> copies;
template <int bytes> inline void cp_async_gs(void* to, const void* from) {
  int mine = running;
  ++copies[mine];
  under_way.emplace_back(dice() % 40, [=] { std::memcpy(to, from, bytes), --copies[mine]; });
}
inline void cp_async_commit() {}
template <int> inline void cp_async_wait() {
  int mine = running;
  until("copies", [=] { return copies[mine] == 0; });
}
template <typename... At> inline void tma_store(const CUtensorMap& map, const void* from, At... at) {
  size_t start = static_cast<const uchar*>(from) - shared_memory;
  visit_box(map, {int(at)...}, [&](int number, uchar* to) {
    bfloat16_t value = shared_at(start + 2 * number);
    if (to) std::memcpy(to, &value, 2);
  });
}
// Lane 8 m + r gives the address of row r of the m-th matrix; each lane has two neighbours of row lane / 4 of all four.
inline void ptx_stmatrix_m8n8_x4(void* row, unsigned first, unsigned second, unsigned third, unsigned fourth) {
  static std::map<int, uchar*> rows;
  int mine = running, warp = mine / 32 * 32, lane = mine % 32;
  rows[mine] = static_cast<uchar*>(row);
  meet(20000 + mine / 32, 32);
  unsigned words[] = {first, second, third, fourth};
  for (int each = 0; each < 4; ++each) std::memcpy(rows[warp + 8 * each + lane / 4] + lane % 4 * 4, &words[each], 4);
  meet(20000 + mine / 32, 32);
}
inline void tma_store_arrive() {}
// An addition reads shared memory as late as it may: some rounds later, or when it is waited for.
inline std::map<int, int> additions;  // of a thread, not yet done
inline void tma_store_add(const void* from, float* to, int bytes) {
  const float* sums = reinterpret_cast<const float*>(from);
  int mine = running;
  ++additions[mine];
  under_way.emplace_back(dice() % 40, [=] {
    for (int each = 0; each < bytes / 4; ++each) to[each] += sums[each];
    --additions[mine];
  });
}
template <int left, bool = true> inline void tma_store_wait() {
  int mine = running;
  until("additions", [=] { return additions[mine] <= left; });
}

// A descriptor's word: the address in units of 16 bytes, then the leading and the stride offset.
struct GmmaDescriptor {
  uint64_t word = 0;
  GmmaDescriptor operator+(uint64_t units) const { return {word + units}; }
  operator uint64_t() const { return word; }
};
template <int layout, int leading, int stride, typename Pointer>
inline void initialize_wgmma_descriptor(GmmaDescriptor& made, Pointer at) {
  static_assert(layout == 1);
  made.word = size_t(reinterpret_cast<uchar*>(at) - shared_memory) >> 4 | uint64_t(leading) << 32 | uint64_t(stride) << 48;
}
template <typename Bytes> inline void increase_descriptor_offset(GmmaDescriptor& made, Bytes bytes) { made.word += bytes >> 4; }
inline float element(uint64_t word, int outer, int k, bool k_major) {
  size_t start = (word & 0xffffffff) << 4, leading = ((word >> 32) & 0xffff) << 4, stride = (word >> 48) << 4;
  if (k_major) return shared_at(start + outer / 8 * stride + outer % 8 * 128 + k * 2);
  return shared_at(start + outer / 64 * leading + k / 8 * stride + k % 8 * 128 + outer % 64 * 2);
}
inline std::map<int, std::deque<std::vector<std::function<void()>>>> batches;
inline std::map<int, std::vector<std::function<void()>>> batch;
inline std::map<std::pair<int, int>, std::vector<uint32_t>> published;  // of a thread's n-th product
inline std::map<int, int> products;
template <typename Take> inline void add_product(int n, uint64_t b, bool transposed, float* sums, int keep, Take a) {
  int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  float left[2][16], right[16];  // a thread has two rows, and two neighbours of each eight columns
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k) left[half][k] = a(warp * 16 + lane / 4 + half * 8, k);
  for (int j = 0; j < n / 8; ++j)
    for (int next = 0; next < 2; ++next) {
      for (int k = 0; k < 16; ++k) right[k] = element(b, j * 8 + lane % 4 * 2 + next, k, !transposed);
      for (int half = 0; half < 2; ++half) {
        float& kept = sums[j * 4 + half * 2 + next];
        float sum = keep ? kept : 0;
        for (int k = 0; k < 16; ++k) sum += left[half][k] * right[k];
        kept = sum;
      }
    }
}
template <DataType, DataType, DataType, int m, int n, int k, bool ta, bool tb, int, int>
inline void wgmma_ss(uint64_t a, uint64_t b, uint32_t* c, int keep) {
  static_assert(m == 64 && k == 16);
  batch[running].push_back([=] {
    add_product(n, b, tb, reinterpret_cast<float*>(c), keep, [=](int row, int at) { return element(a, row, at, !ta); });
  });
}
template <DataType, DataType, DataType, int m, int n, int k, bool, bool tb, int, int>
inline void wgmma_rs(const uint32_t* a, uint64_t b, uint32_t* c, int keep) {
  static_assert(m == 64 && k == 16);
  int mine = running, number = products[mine]++;
  published[{mine, number}] = {a, a + 4};
  batch[mine].push_back([=] {
    meet(30000 + mine / 4, 4);
    add_product(n, b, tb, reinterpret_cast<float*>(c), keep, [=](int row, int at) {
      auto& words = published[{mine / 4 * 4 + at % 8 / 2, number}];
      uint32_t word = words[(row % 16 / 8) + 2 * (at / 8)];
      bfloat16_t value;
      value.bits = at % 2 ? word >> 16 : word & 0xffff;
      return float(value);
    });
    meet(30000 + mine / 4, 4);
    published.erase({mine, number});
  });
}
inline void warpgroup_arrive() {}
inline void warpgroup_commit_batch() {
  batches[running].push_back(std::move(batch[running]));
  batch[running].clear();
}
template <typename T> inline void warpgroup_fence_operand(T*, int) {}
template <int left> inline void wait_wgmma() {
  auto& mine = batches[running];
  while (int(mine.size()) > left) {
    auto first = std::move(mine.front());
    mine.pop_front();
    for (auto& each : first) each();
  }
}
template <int left> inline void warpgroup_wait() { wait_wgmma<left>(); }
struct MaxOp { static float of(float x, float y) { return std::max(x, y); } };
struct SumOp { static float of(float x, float y) { return x + y; } };
template <int> struct NamedBarrier {};
inline std::vector<float> slots(1024);
template <typename Op, int threads, int scale, int, typename> struct AllReduce {
  static float run(float value) {
    static_assert(threads <= 32 && scale == 1);
    int mine = running, first = mine / threads * threads;
    slots[mine] = value;
    meet(30000 + first / 4, threads);
    value = slots[first];
    for (int each = 1; each < threads; ++each) value = Op::of(value, slots[first + each]);
    meet(30000 + first / 4, threads);
    return value;
  }
};
inline float warp_reduce_sum(float value) { return AllReduce<SumOp, 32, 1, 0, NamedBarrier<32>>::run(value); }
}  // namespace tl
inline float __shfl_xor_sync(unsigned, float value, int lanes) {  // among four
  int mine = running;
  tl::slots[mine] = value;
  meet(30000 + mine / 4, 4);
  value = tl::slots[mine ^ lanes];
  meet(30000 + mine / 4, 4);
  return value;
}
inline void hold_wait(float) {}
inline float __uint_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline unsigned __vmaxu2(unsigned a, unsigned b) {
  return max(a & 0xffff, b & 0xffff) | max(a >> 16, b >> 16) << 16;
}
inline std::vector<int> words(1024);
template <typename Find> inline int in_warp(int value, Find find) {  // from what all lanes give, and this one's number
  int warp = running / 32;
  words[running] = value;
  meet(60000 + warp, 32);
  int found = find(&words[32 * warp], running % 32);
  meet(60000 + warp, 32);
  return found;
}
inline unsigned __ballot_sync(unsigned, bool value) {
  return in_warp(value, [](const int* all, int) {
    unsigned lanes = 0;
    for (int each = 0; each < 32; ++each) lanes |= unsigned(all[each]) << each;
    return lanes;
  });
}
inline int __any_sync(unsigned mask, bool value) { return __ballot_sync(mask, value) != 0; }
inline int __popcll(unsigned long long lanes) { return __builtin_popcountll(lanes); }
inline int __shfl_sync(unsigned, int value, int from, int) {
  return in_warp(value, [=](const int* all, int) { return all[from % 32]; });
}
inline int __shfl_up_sync(unsigned, int value, int lanes, int) {
  return in_warp(value, [=](const int* all, int mine) { return all[mine < lanes ? mine : mine - lanes]; });
}

// What the kernels bring themselves.
inline int ends_row(int* counter, int* said, int steps, int all, int barrier) {
  meet(named(barrier), 128);
  if (threadIdx.x % 128 == 0) {
    int last = atomicAdd(counter, steps) + steps == all;
    if (last) atomicExch(counter, 0);
    *said = last;
  }
  meet(named(barrier), 128);
  return *said;
}
inline int others_are_written(int* counter, int* said, int steps, int all, int barrier) {
  if (threadIdx.x % 128 == 0) {
    *said = *counter + steps == all;
    if (*said) *counter = 0;
  }
  meet(named(barrier), 128);
  return *said;
}
inline void bring(const void*, int) {}
inline void bring_queries(const void*, int) {}
inline void await_statistics(const int* counter, int warps) {  // blocks run one after another, so no other will count
  if (*counter != warps) fail("statistics of another block are not there");
}
inline int next_number(int* counter, int total, int blocks) {
  static std::map<int, int> told;
  int warp = running / 32;
  if (threadIdx.x % 32 == 0) {
    told[warp] = atomicAdd(counter, 1);
    if (told[warp] == total + blocks - 1) atomicExch(counter, 0);
  }
  __syncwarp();
  int number = told[warp];
  __syncwarp();
  return number;
}
template <int columns> inline void add_own_columns(const float* scores, float* sums) {
  for (int row = 0; row < 2; ++row)
    for (int i = 2 * row; i < columns / 2; i += 4) sums[row] += scores[i] + scores[i + 1];
}
template <typename T> inline T __ldg(const T* at) { return *at; }
inline void add_lanes(float* sums) {
  for (int row = 0; row < 2; ++row)
    sums[row] = tl::AllReduce<tl::SumOp, 4, 1, 0, tl::NamedBarrier<128>>::run(sums[row]);
}
inline void tie(float*, const float*) {}

inline std::function<void()> body;
inline void enter() {
  body();
  fibers[running].done = true;
  progress = true;
  swapcontext(&fibers[running].context, &scheduler);
}
inline void run_cluster(int first, int blocks, int threads, std::function<void()> kernel) {
  body = kernel, block_threads = threads, first_block = first;
  meetings.clear(), arrays.clear(), tl::batches.clear(), tl::batch.clear(), tl::published.clear(), tl::products.clear(), tl::additions.clear(), tl::copies.clear();
  std::memset(memories, 0xff, blocks * SHARED_BYTES);  // NaN
  fibers = std::vector<Fiber>(blocks * threads);
  for (auto& each : fibers) {
    getcontext(&each.context);
    each.stack.resize(1 << 16);
    each.context.uc_stack.ss_sp = each.stack.data(), each.context.uc_stack.ss_size = each.stack.size();
    each.context.uc_link = &scheduler;
    makecontext(&each.context, enter, 0);
  }
  std::vector<int> asleep((fibers.size() + 127) / 128);  // rounds that a warp group misses, so that one falls behind
  for (int idle = 0, left = fibers.size(); left;) {
    left = 0, progress = false;
    for (int& rounds : asleep) rounds = rounds ? rounds - 1 : dice() % 40 ? 0 : dice() % 40;
    for (int each = 0; each < int(fibers.size()); ++each) {
      if (fibers[each].done) continue;
      ++left;
      if (asleep[each / 128]) progress = true;
      else if (!fibers[each].holds || fibers[each].holds(fibers[each].condition)) resume(each);
    }
    auto coming = std::move(under_way);
    under_way.clear();
    for (auto& [rounds, load] : coming) {
      if (rounds <= 0) load();
      else under_way.emplace_back(rounds - 1, std::move(load));
    }
    idle = progress || !under_way.empty() ? 0 : idle + 1;
    if (idle > 3) {
      std::map<std::string, int> waits;
      for (auto& each : fibers) if (!each.done) ++waits[*each.waits];
      std::string all;
      for (auto& [name, count] : waits) all += " " + std::to_string(count) + " at " + name + ";";
      fail("deadlock of block " + std::to_string(first) + ":" + all);
    }
  }
}
