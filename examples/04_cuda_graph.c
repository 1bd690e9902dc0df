// Captures an all-reduce of every GPU in CUDA graphs and launches them again and again. Each launch doubles, triples, …
// the number of every rank: with n GPUs a launch multiplies it by n.
//
//   nvcc 04_cuda_graph.c -o 04_cuda_graph $(pkg-config --cflags --libs plait) && ./04_cuda_graph
#include <cuda_runtime_api.h>
#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>

enum { kLaunches = 5, kMostRanks = 16, kNoGpu = 77 };

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
  check(plaitCommInitAll(comms, ranks, NULL));
  cudaStream_t streams[kMostRanks];
  float* number[kMostRanks];
  const float one = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    check_cuda(cudaSetDevice(rank));
    check_cuda(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
    check_cuda(cudaMalloc((void**)&number[rank], sizeof(one)));
    check_cuda(cudaMemcpy(number[rank], &one, sizeof(one), cudaMemcpyHostToDevice));
    check_cuda(cudaStreamBeginCapture(streams[rank], cudaStreamCaptureModeRelaxed));
  }

  check(plaitGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    check(plaitAllReduce(number[rank], number[rank], 1, plaitFloat32, plaitSum, comms[rank], streams[rank]));
  }
  check(plaitGroupEnd()); /* nothing has run yet: the calls are in the graphs */

  cudaGraphExec_t graphs[kMostRanks];
  for (int rank = 0; rank < ranks; ++rank) {
    cudaGraph_t graph;
    check_cuda(cudaStreamEndCapture(streams[rank], &graph));
    check_cuda(cudaGraphInstantiateWithFlags(&graphs[rank], graph, 0));
    check_cuda(cudaGraphDestroy(graph));
  }
  /* All ranks launch their graphs in the same order. */
  for (int launch = 0; launch < kLaunches; ++launch) {
    for (int rank = 0; rank < ranks; ++rank) check_cuda(cudaGraphLaunch(graphs[rank], streams[rank]));
  }

  int wrong = 0;
  float expected = 1;
  for (int launch = 0; launch < kLaunches; ++launch) expected *= (float)ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    float result = 0;
    check_cuda(cudaSetDevice(rank));
    check_cuda(cudaStreamSynchronize(streams[rank]));
    check_cuda(cudaMemcpy(&result, number[rank], sizeof(result), cudaMemcpyDeviceToHost));
    printf("rank %d: after %d launches its number is %g\n", rank, kLaunches, result);
    wrong += result != expected;
  }

  for (int rank = 0; rank < ranks; ++rank) {
    check_cuda(cudaSetDevice(rank));
    check_cuda(cudaGraphExecDestroy(graphs[rank])); /* graphs go before the communicator that they use */
    check(plaitCommDestroy(comms[rank]));
    check_cuda(cudaFree(number[rank]));
    check_cuda(cudaStreamDestroy(streams[rank]));
  }
  return wrong == 0 ? 0 : 1;
}
