// Adds up a vector over all GPUs of this machine. One process drives them all, and each GPU is a rank.
//
//   nvcc 03_gpu.c -o 03_gpu $(pkg-config --cflags --libs plait) && ./03_gpu
#include <cuda_runtime_api.h>
#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>

enum { kCount = 1 << 20, kMostRanks = 16, kNoGpu = 77 };

static void check(plaitResult_t result) {
  if (result == plaitSuccess) return;
  fprintf(stderr, "%s: %s\n", plaitGetErrorString(result), plaitGetLastError(NULL));
  exit(1);
}

static void check_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  exit(1);
}

int main(void) {
  int ranks = 0;
  if (cudaGetDeviceCount(&ranks) != cudaSuccess || ranks == 0) {
    printf("there is no GPU here\n");
    return kNoGpu;
  }
  if (ranks > kMostRanks) ranks = kMostRanks;

  plaitComm_t comms[kMostRanks];
  check(plaitCommInitAll(comms, ranks, NULL)); /* rank r is on GPU r */

  static float ones[kCount];
  for (int i = 0; i < kCount; ++i) ones[i] = 1;
  cudaStream_t streams[kMostRanks];
  float *input[kMostRanks], *sum[kMostRanks];
  for (int rank = 0; rank < ranks; ++rank) {
    check_cuda(cudaSetDevice(rank));
    check_cuda(cudaStreamCreate(&streams[rank]));
    check_cuda(cudaMalloc((void**)&input[rank], sizeof(ones))); /* memory of any allocator will do */
    check_cuda(cudaMalloc((void**)&sum[rank], sizeof(ones)));
    check_cuda(cudaMemcpy(input[rank], ones, sizeof(ones), cudaMemcpyHostToDevice));
  }

  check(plaitGroupStart()); /* one thread makes the calls of all ranks */
  for (int rank = 0; rank < ranks; ++rank) {
    check(plaitAllReduce(input[rank], sum[rank], kCount, plaitFloat32, plaitSum, comms[rank], streams[rank]));
  }
  check(plaitGroupEnd()); /* returns at once; the streams do the work */

  int wrong = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    float last = 0;
    check_cuda(cudaSetDevice(rank));
    check_cuda(cudaStreamSynchronize(streams[rank]));
    check_cuda(cudaMemcpy(&last, sum[rank] + kCount - 1, sizeof(last), cudaMemcpyDeviceToHost));
    printf("rank %d of %d: the sum is %g\n", rank, ranks, last);
    wrong += last != (float)ranks;
  }

  for (int rank = 0; rank < ranks; ++rank) {
    check(plaitCommDestroy(comms[rank]));
    check_cuda(cudaSetDevice(rank));
    check_cuda(cudaFree(input[rank]));
    check_cuda(cudaFree(sum[rank]));
    check_cuda(cudaStreamDestroy(streams[rank]));
  }
  return wrong == 0 ? 0 : 1;
}
