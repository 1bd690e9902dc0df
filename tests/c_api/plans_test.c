// Plans of a program's own: read, run, refused.
#define _DEFAULT_SOURCE
#include "testing.h"

enum { kRanks = 2, kCount = 100 };

// Rank 0 hands its input to rank 1; %s: a name, and whether it may be in place.
static const char kBroadcast[] =
    "{\"plait_plan\": 2, \"algorithm\": \"%s\", \"collective\": \"broadcast\", \"access\": \"staged\", \"root\": 0,\n"
    " \"blocks\": 1, \"chunks_per_block\": 1, \"in_place\": %s, \"node_of\": [0, 0], \"ranks\": [\n"
    "  {\"scratch_slots\": 0, \"host_slots\": 0, \"signals\": 0, \"messages\": 0, \"queues\": [\n"
    "    {\"engine\": \"cpu\", \"operations\": [\n"
    "      {\"op\": \"reduce\", \"to\": [\"r0.output\", \"r1.scratch[0]\"], \"from\": [\"r0.input\"], \"chunk\": 0},\n"
    "      {\"op\": \"signal\", \"number\": 0, \"rank\": 1, \"queue\": 0}]}]},\n"
    "  {\"scratch_slots\": 1, \"host_slots\": 0, \"signals\": 1, \"messages\": 0, \"queues\": [\n"
    "    {\"engine\": \"cpu\", \"operations\": [\n"
    "      {\"op\": \"wait\", \"number\": 0, \"rank\": 0, \"queue\": 0},\n"
    "      {\"op\": \"reduce\", \"to\": [\"r1.output\"], \"from\": [\"r1.scratch[0]\"], \"chunk\": 0}]}]}]}\n";

// Both swap their inputs and add them up.
static const char kSwap[] =
    "{\"plait_plan\": 2, \"algorithm\": \"swap\", \"collective\": \"all_reduce\", \"access\": \"staged\", \"root\": "
    "0,\n"
    " \"blocks\": 1, \"chunks_per_block\": 1, \"in_place\": true, \"node_of\": [0, 0], \"ranks\": [\n"
    "  {\"scratch_slots\": 1, \"host_slots\": 0, \"signals\": 1, \"messages\": 0, \"queues\": [\n"
    "    {\"engine\": \"cpu\", \"operations\": [\n"
    "      {\"op\": \"reduce\", \"to\": [\"r1.scratch[0]\"], \"from\": [\"r0.input\"], \"chunk\": 0},\n"
    "      {\"op\": \"signal\", \"number\": 0, \"rank\": 1, \"queue\": 0},\n"
    "      {\"op\": \"wait\", \"number\": 0, \"rank\": 1, \"queue\": 0},\n"
    "      {\"op\": \"reduce\", \"to\": [\"r0.output\"], \"from\": [\"r0.input\", \"r0.scratch[0]\"], \"chunk\": "
    "0}]}]},\n"
    "  {\"scratch_slots\": 1, \"host_slots\": 0, \"signals\": 1, \"messages\": 0, \"queues\": [\n"
    "    {\"engine\": \"cpu\", \"operations\": [\n"
    "      {\"op\": \"reduce\", \"to\": [\"r0.scratch[0]\"], \"from\": [\"r1.input\"], \"chunk\": 0},\n"
    "      {\"op\": \"signal\", \"number\": 0, \"rank\": 0, \"queue\": 0},\n"
    "      {\"op\": \"wait\", \"number\": 0, \"rank\": 0, \"queue\": 0},\n"
    "      {\"op\": \"reduce\", \"to\": [\"r1.output\"], \"from\": [\"r1.scratch[0]\", \"r1.input\"], \"chunk\": "
    "0}]}]}]}\n";

static char text[4096];

static const char* broadcast(const char* name, const char* in_place) {
  snprintf(text, sizeof(text), kBroadcast, name, in_place);
  return text;
}

static plaitPlan_t parse(const char* json) {
  plaitPlan_t plan = NULL;
  OK(plaitPlanParse(&plan, json));
  return plan;
}

static void make(plaitComm_t comms[kRanks]) {
  const int devices[kRanks] = {PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST};
  OK(plaitCommInitAll(comms, kRanks, devices));
}

static void end(plaitComm_t comms[kRanks]) {
  for (int rank = 0; rank < kRanks; ++rank) OK(plaitCommDestroy(comms[rank]));
}

// Both ranks' calls are in one group.
static plaitResult_t run(const plaitPlan_t plans[kRanks], const int* send[kRanks], int* receive[kRanks],
                         plaitRedOp_t op, plaitComm_t comms[kRanks]) {
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    OK(plaitRunPlan(send[rank], receive[rank], kCount, plaitInt, op, plans[rank], comms[rank], NULL));
  }
  return plaitGroupEnd();
}

static void test_runs(void) {
  int first[kCount], second[kCount], out[kRanks][kCount];
  const int* send[kRanks] = {first, second};
  int* receive[kRanks] = {out[0], out[1]};
  plaitComm_t comms[kRanks];
  make(comms);
  for (int i = 0; i < kCount; ++i) first[i] = i, second[i] = 1000;
  const plaitPlan_t swap = parse(kSwap), one = parse(broadcast("pair", "true"));
  const plaitPlan_t swaps[kRanks] = {swap, swap}, pairs[kRanks] = {one, one};
  OK(run(swaps, send, receive, plaitSum, comms));
  for (int i = 0; i < kCount; ++i) CHECK(out[0][i] == i + 1000 && out[1][i] == i + 1000);
  OK(run(swaps, send, receive, plaitMax, comms));
  CHECK(out[0][99] == 1000 && out[1][0] == 1000);
  // An operation is looked at only where there is one; rank 1 gives nothing.
  const int* of_root[kRanks] = {first, NULL};
  OK(run(pairs, of_root, receive, (plaitRedOp_t)77, comms));
  CHECK(out[0][7] == 7 && out[1][99] == 99);
  // In place, with a factor.
  int* in_place[kRanks] = {first, second};
  plaitRedOp_t ops[kRanks];
  int factors[kRanks] = {2, 3};
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    OK(plaitRedOpCreatePreMulSum(&ops[rank], &factors[rank], plaitInt, plaitScalarHostImmediate, comms[rank]));
    OK(plaitRunPlan(in_place[rank], in_place[rank], kCount, plaitInt, ops[rank], swap, comms[rank], NULL));
  }
  OK(plaitPlanDestroy(swap));  // which the group still runs
  OK(plaitGroupEnd());
  CHECK(first[5] == 2 * 5 + 3 * 1000 && second[99] == 2 * 99 + 3 * 1000);
  OK(plaitPlanDestroy(one));
  end(comms);
}

static void test_files(void) {
  char path[] = "/tmp/plait-plan-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0 && write(file, kSwap, sizeof(kSwap) - 1) == (ssize_t)sizeof(kSwap) - 1);
  close(file);
  plaitPlan_t plan = NULL;
  OK(plaitPlanLoad(&plan, path));
  CHECK(plan != NULL);
  OK(plaitPlanDestroy(plan));
  unlink(path);
  FAILS(plaitPlanLoad(&plan, path), plaitInvalidArgument, "cannot be read: No such file");
  CHECK(plan == NULL);
  FAILS(plaitPlanLoad(&plan, NULL), plaitInvalidArgument, "plaitPlanLoad: path is NULL");
  FAILS(plaitPlanLoad(NULL, path), plaitInvalidArgument, "plaitPlanLoad: plan is NULL");
}

static void test_refused(void) {
  plaitPlan_t plan = NULL;
  FAILS(plaitPlanParse(&plan, NULL), plaitInvalidArgument, "plaitPlanParse: json is NULL");
  FAILS(plaitPlanParse(&plan, "{}"), plaitInvalidArgument, "plaitPlanParse: json:1: expected a plan");
  snprintf(text, sizeof(text), "%s", kSwap);
  memcpy(strstr(text, "\"r0.output\""), "\"r0.scratc\"", 11);
  FAILS(plaitPlanParse(&plan, text), plaitInvalidArgument, "json:8: expected a place such as");
  broadcast("hasty", "true");
  memcpy(strstr(text, "\"from\": [\"r1.scratch[0]\"]"), "\"from\": [\"r0.scratch[0]\"]", 25);
  FAILS(plaitPlanParse(&plan, text), plaitInvalidArgument,
        "plan hasty, rank 1, queue 0 (cpu), operation 1 `reduce r1.output");
  CHECK(plan == NULL);

  int buffer[kCount] = {0};
  plaitComm_t comms[kRanks], alone;
  const int host = PLAIT_DEVICE_HOST;
  make(comms);
  OK(plaitCommInitAll(&alone, 1, &host));
  plan = parse(broadcast("pair", "false"));
  const plaitResult_t invalid = plaitInvalidArgument;
  FAILS(plaitRunPlan(buffer, buffer, 1, plaitInt, plaitSum, plan, alone, NULL), invalid,
        "plan is for 2 ranks, and comm");
  FAILS(plaitRunPlan(NULL, buffer, 1, plaitInt, plaitSum, plan, comms[0], NULL), invalid, "sendbuff is NULL");
  FAILS(plaitRunPlan(buffer, buffer, 1, (plaitDataType_t)33, plaitSum, plan, comms[0], NULL), invalid,
        "datatype is 33");
  FAILS(plaitRunPlan(buffer, buffer, 1, plaitInt, plaitSum, NULL, comms[0], NULL), invalid, "plan is NULL");
  FAILS(plaitRunPlan(buffer, buffer, 1, plaitInt, plaitSum, (plaitPlan_t)text, comms[0], NULL), invalid,
        "plan is not a handle");
  FAILS(plaitRunPlan(buffer, buffer, 1, plaitInt, plaitSum, plan, comms[0], NULL), invalid, "pair is never in place");
  OK(plaitPlanDestroy(plan));
  FAILS(plaitPlanDestroy(plan), invalid, "plan is the handle of a plan that was destroyed");
  FAILS(plaitRunPlan(buffer, buffer, 1, plaitInt, plaitSum, plan, comms[0], NULL), invalid, "that was destroyed");
  OK(plaitPlanDestroy(NULL));
  plan = parse(kSwap);
  FAILS(plaitRunPlan(buffer, buffer, 1, plaitInt, (plaitRedOp_t)9, plan, comms[0], NULL), invalid, "op is 9");
  OK(plaitPlanDestroy(plan));
  OK(plaitCommDestroy(alone));
  end(comms);
}

// On all ranks, in words that name both.
static void test_different_plans(void) {
  int buffers[kRanks][kCount] = {{0}};
  const int* send[kRanks] = {buffers[0], buffers[1]};
  int* receive[kRanks] = {buffers[0], buffers[1]};
  plaitComm_t comms[kRanks];
  make(comms);
  const plaitPlan_t one = parse(broadcast("one", "true")), other = parse(broadcast("other", "true"));
  const plaitPlan_t plans[kRanks] = {one, other};
  CHECK(run(plans, send, receive, plaitSum, comms) == plaitInvalidUsage);
  for (int rank = 0; rank < kRanks; ++rank) {
    plaitResult_t state = plaitSuccess;
    OK(plaitCommGetAsyncError(comms[rank], &state));
    CHECK(state == plaitInvalidUsage);
    CHECK(strstr(plaitGetLastError(comms[rank]), "call 1 differs between ranks") != NULL);
    CHECK(strstr(plaitGetLastError(comms[rank]), "broadcast of 100 int32, root 0, by plan ") != NULL);
  }
  OK(plaitPlanDestroy(one));
  OK(plaitPlanDestroy(other));
  for (int rank = 0; rank < kRanks; ++rank) OK(plaitCommAbort(comms[rank]));
}

int main(void) {
  begin_test();
  test_runs();
  test_files();
  test_refused();
  test_different_plans();
  return end_test("c_api/plans");
}
