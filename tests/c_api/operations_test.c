// Pre-multiplied sums of the C interface: results, how long an operation lives, and what is refused.
#define _DEFAULT_SOURCE
#include "testing.h"

enum { kRanks = 3, kCount = 500 };

static plaitComm_t comms[kRanks];
static float sends[kRanks][kCount * kRanks];
static float receives[kRanks][kCount * kRanks];

static float value_of(int rank, int i) { return (float)((rank + 1) * 100 + i % 37); }
static float factor_of(int rank) { return 0.5f * (float)(rank + 1); }

static float sum_of(int i) {
  float sum = 0;
  for (int rank = 0; rank < kRanks; ++rank) sum += value_of(rank, i) * factor_of(rank);
  return sum;
}

static void fill(void) {
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kCount * kRanks; ++i) {
      sends[rank][i] = value_of(rank, i);
      receives[rank][i] = -1;
    }
  }
}

static void check_sends(void) {
  for (int rank = 0; rank < kRanks; ++rank) {
    int changed = 0;
    for (int i = 0; i < kCount * kRanks; ++i) changed += sends[rank][i] != value_of(rank, i);
    CHECK(changed == 0);
  }
}

static void check_sums(const float* values, int first) {
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += values[i] != sum_of(first + i);
  CHECK(wrong == 0);
}

static plaitRedOp_t new_op(int rank) {
  plaitRedOp_t op = plaitSum;
  float factor = factor_of(rank);
  OK(plaitRedOpCreatePreMulSum(&op, &factor, plaitFloat32, plaitScalarHostImmediate, comms[rank]));
  factor = -77;  // it was read
  CHECK((int)op >= (int)plaitNumOps);
  return op;
}

static void test_results(void) {
  plaitRedOp_t ops[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) ops[rank] = new_op(rank);

  fill();
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    OK(plaitAllReduce(sends[rank], receives[rank], kCount, plaitFloat32, ops[rank], comms[rank], NULL));
  }
  OK(plaitGroupEnd());
  check_sends();
  for (int rank = 0; rank < kRanks; ++rank) check_sums(receives[rank], 0);

  fill();
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    float* receive = rank == 1 ? receives[rank] : NULL;
    OK(plaitReduce(sends[rank], receive, kCount, plaitFloat32, ops[rank], 1, comms[rank], NULL));
  }
  OK(plaitGroupEnd());
  check_sends();
  check_sums(receives[1], 0);

  fill();
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    OK(plaitReduceScatter(sends[rank], receives[rank], kCount, plaitFloat32, ops[rank], comms[rank], NULL));
  }
  OK(plaitGroupEnd());
  check_sends();
  for (int rank = 0; rank < kRanks; ++rank) check_sums(receives[rank], rank * kCount);

  // In place, with operations that end before the group does.
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    OK(plaitAllReduce(sends[rank], sends[rank], kCount, plaitFloat32, ops[rank], comms[rank], NULL));
    OK(plaitRedOpDestroy(ops[rank], comms[rank]));
  }
  OK(plaitGroupEnd());
  for (int rank = 0; rank < kRanks; ++rank) check_sums(sends[rank], 0);
}

static void test_refusals(void) {
  float value = 2;
  int number = 2;
  plaitRedOp_t op = plaitMin, other;
  const plaitScalarResidence_t host = plaitScalarHostImmediate;
  FAILS(plaitRedOpCreatePreMulSum(NULL, &value, plaitFloat32, host, comms[0]), plaitInvalidArgument,
        "plaitRedOpCreatePreMulSum: op is NULL");
  FAILS(plaitRedOpCreatePreMulSum(&op, NULL, plaitFloat32, host, comms[0]), plaitInvalidArgument, "scalar is NULL");
  FAILS(plaitRedOpCreatePreMulSum(&op, &value, (plaitDataType_t)12, host, comms[0]), plaitInvalidArgument,
        "datatype is 12");
  FAILS(plaitRedOpCreatePreMulSum(&op, &value, plaitFloat32, (plaitScalarResidence_t)2, comms[0]), plaitInvalidArgument,
        "residence is 2");
  // Not an address: it must not be looked at.
  FAILS(plaitRedOpCreatePreMulSum(&op, (void*)16, plaitFloat32, plaitScalarDevice, comms[0]), plaitInvalidArgument,
        "made without a CUDA device");
  CHECK(op == plaitMin);

  OK(plaitRedOpCreatePreMulSum(&op, &value, plaitFloat32, host, comms[0]));
  OK(plaitRedOpCreatePreMulSum(&other, &value, plaitFloat32, host, comms[1]));
  CHECK(op != other);
  FAILS(plaitAllReduce(&value, &value, 1, plaitFloat32, other, comms[0], NULL), plaitInvalidArgument,
        "made for another communicator");
  FAILS(plaitReduce(&number, &number, 1, plaitInt, op, 0, comms[0], NULL), plaitInvalidArgument,
        "plaitReduce: op was made for float32, and datatype is int32");
  FAILS(plaitRedOpDestroy(other, comms[0]), plaitInvalidArgument, "comm has no such operation");
  FAILS(plaitRedOpDestroy(plaitSum, comms[0]), plaitInvalidArgument, "op is 0, one of the library's own");
  FAILS(plaitRedOpDestroy(plaitMaxRedOp, comms[0]), plaitInvalidArgument, "comm has no such operation");
  OK(plaitRedOpDestroy(op, comms[0]));
  FAILS(plaitRedOpDestroy(op, comms[0]), plaitInvalidArgument, "it was destroyed");
  FAILS(plaitReduceScatter(&value, &value, 1, plaitFloat32, op, comms[0], NULL), plaitInvalidArgument,
        "plaitReduceScatter: op is");
  FAILS(plaitReduceScatter(&value, &value, 1, plaitFloat32, (plaitRedOp_t)-1, comms[0], NULL), plaitInvalidArgument,
        "op is -1");
  CHECK(value == 2);

  int made = 0;
  while (made < 100000 && plaitRedOpCreatePreMulSum(&op, &value, plaitFloat32, host, comms[2]) == plaitSuccess) ++made;
  CHECK(made == 4096);
  FAILS(plaitRedOpCreatePreMulSum(&other, &value, plaitFloat32, host, comms[2]), plaitInvalidUsage,
        "plaitRedOpDestroy");
  OK(plaitRedOpDestroy(op, comms[2]));
  OK(plaitRedOpCreatePreMulSum(&other, &value, plaitFloat32, host, comms[2]));
  CHECK(other != op);
}

int main(void) {
  const int host[kRanks] = {PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST};
  begin_test();
  OK(plaitCommInitAll(comms, kRanks, host));
  test_results();
  test_refusals();
  for (int rank = 0; rank < kRanks; ++rank) OK(plaitCommDestroy(comms[rank]));
  return end_test("operations_test");
}
