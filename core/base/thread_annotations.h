#pragma once

#include <mutex>

// Clang's -Wthread-safety reads these; other compilers see nothing.
#if defined(__clang__)
#define HVD_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HVD_THREAD_ATTRIBUTE(x)
#endif

#define HVD_CAPABILITY(name) HVD_THREAD_ATTRIBUTE(capability(name))
#define HVD_SCOPED_CAPABILITY HVD_THREAD_ATTRIBUTE(scoped_lockable)
#define HVD_GUARDED_BY(mutex) HVD_THREAD_ATTRIBUTE(guarded_by(mutex))
#define HVD_REQUIRES(...) HVD_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define HVD_ACQUIRE(...) HVD_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HVD_RELEASE(...) HVD_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace hvd {

// libstdc++'s mutex carries no annotations; this one does. Works with std::condition_variable_any.
class HVD_CAPABILITY("mutex") Mutex {
 public:
  void lock() HVD_ACQUIRE() { mutex_.lock(); }
  void unlock() HVD_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class HVD_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HVD_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() HVD_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace hvd
