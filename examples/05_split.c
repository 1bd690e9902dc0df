// Divides six ranks into the rows and the columns of a grid, as programs do that are parallel over data and over layers
// at once. Each rank adds up its number over its row, then over its column. The ranks are on host memory; with GPUs the
// calls are the same (03_gpu.c).
//
//   cc 05_split.c -o 05_split $(pkg-config --cflags --libs plait) -Wl,-rpath,$(pkg-config --variable=libdir plait)
//   ./05_split
#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 2, kColumns = 3, kRanks = kRows * kColumns };

static void check(plaitResult_t result) {
  if (result == plaitSuccess) return;
  fprintf(stderr, "%s: %s\n", plaitGetErrorString(result), plaitGetLastError(NULL));
  exit(1);
}

static void add_up(const float* numbers, float* sums, plaitComm_t* comms) {
  check(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    check(plaitAllReduce(&numbers[rank], &sums[rank], 1, plaitFloat32, plaitSum, comms[rank], NULL));
  }
  check(plaitGroupEnd());
}

int main(void) {
  plaitComm_t all[kRanks], row[kRanks], column[kRanks];
  int devices[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) devices[rank] = PLAIT_DEVICE_HOST;
  check(plaitCommInitAll(all, kRanks, devices));

  check(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    /* Ranks of one color get a communicator, in the order of their keys. */
    check(plaitCommSplit(all[rank], rank / kColumns, rank % kColumns, &row[rank], NULL));
    check(plaitCommSplit(all[rank], rank % kColumns, rank / kColumns, &column[rank], NULL));
  }
  check(plaitGroupEnd()); /* from here on row[] and column[] can be used */

  float numbers[kRanks], over_row[kRanks], over_column[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) numbers[rank] = (float)rank;
  add_up(numbers, over_row, row);
  add_up(numbers, over_column, column);

  int wrong = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const int r = rank / kColumns, c = rank % kColumns;
    printf("rank %d: %g over row %d, %g over column %d\n", rank, over_row[rank], r, over_column[rank], c);
    wrong += over_row[rank] != (float)(3 * (kColumns * r + 1)) || over_column[rank] != (float)(2 * c + kColumns);
  }

  for (int rank = 0; rank < kRanks; ++rank) {
    check(plaitCommDestroy(row[rank]));
    check(plaitCommDestroy(column[rank]));
    check(plaitCommDestroy(all[rank]));
  }
  return wrong == 0 ? 0 : 1;
}
