// The functions that compilers call at each access, in files that are compiled with -fsanitize=thread; compilers
// dictate the names and signatures. These report to the race detector, and perform atomic accesses.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "support/race_detector.hpp"

using plait::test::RaceDetector;
using Kind = RaceDetector::Kind;

#define PLAIT_CODE __builtin_return_address(0)
#define PLAIT_ACCESS(name, bytes, kind) \
  void name(void* at) { RaceDetector::touch(at, bytes, kind, PLAIT_CODE); }
#define PLAIT_ACCESSES(bytes)                                    \
  PLAIT_ACCESS(__tsan_read##bytes, bytes, Kind::kLoad)           \
  PLAIT_ACCESS(__tsan_write##bytes, bytes, Kind::kStore)         \
  PLAIT_ACCESS(__tsan_unaligned_read##bytes, bytes, Kind::kLoad) \
  PLAIT_ACCESS(__tsan_unaligned_write##bytes, bytes, Kind::kStore)

#define PLAIT_UPDATE(Word, name, operation)                           \
  Word name(Word* at, Word value, int order) {                        \
    RaceDetector::update_atomic(at, sizeof(Word), order, PLAIT_CODE); \
    return operation(at, value, __ATOMIC_SEQ_CST);                    \
  }
#define PLAIT_COMPARE_EXCHANGE(Word, name)                                                                     \
  int name(Word* at, Word* seen, Word value, int order, int) {                                                 \
    const bool done = __atomic_compare_exchange_n(at, seen, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    (done ? RaceDetector::update_atomic : RaceDetector::load_atomic)(at, sizeof(Word), order, PLAIT_CODE);     \
    return done;                                                                                               \
  }
#define PLAIT_ATOMICS(Word, type)                                       \
  Word __tsan_##type##_load(const Word* at, int order) {                \
    RaceDetector::load_atomic(at, sizeof(Word), order, PLAIT_CODE);     \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                       \
  }                                                                     \
  void __tsan_##type##_store(Word* at, Word value, int order) {         \
    RaceDetector::store_atomic(at, sizeof(Word), order, PLAIT_CODE);    \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                      \
  }                                                                     \
  PLAIT_UPDATE(Word, __tsan_##type##_exchange, __atomic_exchange_n)     \
  PLAIT_UPDATE(Word, __tsan_##type##_fetch_add, __atomic_fetch_add)     \
  PLAIT_UPDATE(Word, __tsan_##type##_fetch_sub, __atomic_fetch_sub)     \
  PLAIT_COMPARE_EXCHANGE(Word, __tsan_##type##_compare_exchange_strong) \
  PLAIT_COMPARE_EXCHANGE(Word, __tsan_##type##_compare_exchange_weak)

extern "C" {
PLAIT_ACCESSES(1)
PLAIT_ACCESSES(2)
PLAIT_ACCESSES(4)
PLAIT_ACCESSES(8)
PLAIT_ACCESSES(16)
PLAIT_ATOMICS(uint8_t, atomic8)
PLAIT_ATOMICS(uint32_t, atomic32)
PLAIT_ATOMICS(uint64_t, atomic64)

void __tsan_read_range(void* at, size_t bytes) { RaceDetector::touch(at, bytes, Kind::kLoad, PLAIT_CODE); }
void __tsan_write_range(void* at, size_t bytes) { RaceDetector::touch(at, bytes, Kind::kStore, PLAIT_CODE); }
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  RaceDetector::touch(from, bytes, Kind::kLoad, PLAIT_CODE);
  RaceDetector::touch(to, bytes, Kind::kStore, PLAIT_CODE);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  RaceDetector::touch(from, bytes, Kind::kLoad, PLAIT_CODE);
  RaceDetector::touch(to, bytes, Kind::kStore, PLAIT_CODE);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  RaceDetector::touch(to, bytes, Kind::kStore, PLAIT_CODE);
  return std::memset(to, value, bytes);
}
void __tsan_atomic_thread_fence(int) { RaceDetector::fence(); }
void __tsan_atomic_signal_fence(int) {}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
