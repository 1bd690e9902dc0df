// Checks that count their failures. All C programs of this folder share them.
#ifndef PLAIT_TESTS_TESTING_H
#define PLAIT_TESTS_TESTING_H

#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int checks = 0;
static int failures = 0;

static void check_at(int good, const char* what, const char* file, int line) {
  ++checks;
  if (good) return;
  ++failures;
  fprintf(stderr, "%s:%d: failed: %s (last error: '%s')\n", file, line, what, plaitGetLastError(NULL));
}
#define CHECK(condition) check_at((condition) != 0, #condition, __FILE__, __LINE__)
#define OK(call) check_at((call) == plaitSuccess, #call, __FILE__, __LINE__)

// The call fails with `result`, and the thread's last error has `words`.
static void check_error_at(plaitResult_t got, plaitResult_t result, const char* words, const char* what,
                           const char* file, int line) {
  ++checks;
  if (got == result && strstr(plaitGetLastError(NULL), words) != NULL) return;
  ++failures;
  fprintf(stderr, "%s:%d: %s gave %d and '%s'; expected %d and '%s'\n", file, line, what, (int)got,
          plaitGetLastError(NULL), (int)result, words);
}
#define FAILS(call, result, words) check_error_at((call), (result), (words), #call, __FILE__, __LINE__)

// Host memory, however many GPUs the machine has; and whatever hangs is ended.
static void begin_test(void) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  setenv("PLAIT_TIMEOUT_SEC", "30", 0);
  setenv("PLAIT_BOOTSTRAP_TIMEOUT_SEC", "30", 0);
  alarm(120);
}

static int end_test(const char* name) {
  printf("%s: %d checks, %d failed\n", name, checks, failures);
  return failures == 0 && checks > 0 ? 0 : 1;
}

#endif  // PLAIT_TESTS_TESTING_H
