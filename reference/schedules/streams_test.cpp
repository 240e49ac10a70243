// DeepSpeed's streams, ColossalAI's and Megatron's traces, and PyTorch's acceptance of rows, as recorded.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/deepspeed_stream.hpp"
#include "reference/schedules/detail/torch_csv.hpp"
#include "reference/schedules/detail/traces.hpp"

namespace plumbline::schedules {
namespace {

std::string text(const InstructionStream& stream) {
  std::string steps;
  for (const auto& step : stream.steps) steps += fmt::format("{}\n", fmt::join(step, " "));
  return steps;
}
std::string text(const std::vector<std::string>& cells) { return fmt::format("{}", fmt::join(cells, ",")); }

TEST(DeepspeedStream, TrainsAs1F1BWithTwoOrdersOfExchange) {
  const auto streams = deepspeed_streams(StreamKind::train, 2, 2);
  EXPECT_EQ(streams[0].num_pipe_buffers, 2);
  EXPECT_TRUE(streams[0].is_first_stage && !streams[0].is_last_stage && streams[1].is_last_stage);
  EXPECT_EQ(text(streams[0]),
            "LoadMicroBatch(buffer_id=0) ForwardPass(buffer_id=0)\n"
            "SendActivation(buffer_id=0)\n"
            "LoadMicroBatch(buffer_id=1) ForwardPass(buffer_id=1)\n"
            "RecvGrad(buffer_id=0) SendActivation(buffer_id=1) BackwardPass(buffer_id=0)\n"
            "\n"
            "RecvGrad(buffer_id=1) BackwardPass(buffer_id=1) ReduceTiedGrads() ReduceGrads() OptimizerStep()\n");
  EXPECT_EQ(
      deepspeed_streams(StreamKind::train, 2, 2, StreamOrder::deepspeed06)[0].steps[3],
      (std::vector<std::string>{"SendActivation(buffer_id=1)", "RecvGrad(buffer_id=0)", "BackwardPass(buffer_id=0)"}));
  EXPECT_EQ(streams[1].steps[3], (std::vector<std::string>{"SendGrad(buffer_id=0)", "RecvActivation(buffer_id=1)",
                                                           "LoadMicroBatch(buffer_id=1)", "ForwardPass(buffer_id=1)"}));
}

TEST(DeepspeedStream, HasABufferForEachMicroBatchOnItsWay) {
  const auto buffers = [](StreamOrder order) {
    std::vector<int> counts;
    for (const InstructionStream& stream : deepspeed_streams(StreamKind::train, 4, 6, order))
      counts.push_back(stream.num_pipe_buffers);
    return counts;
  };
  EXPECT_EQ(buffers(StreamOrder::deepspeed), (std::vector<int>{4, 3, 2, 2}));
  EXPECT_EQ(buffers(StreamOrder::deepspeed06), (std::vector<int>{5, 4, 3, 2}));
}

TEST(DeepspeedStream, InfersWithTwoBuffersAndAccumulatesWithOne) {
  EXPECT_EQ(text(deepspeed_streams(StreamKind::inference, 2, 2)[1]),
            "\nLoadMicroBatch(buffer_id=0) RecvActivation(buffer_id=0) ForwardPass(buffer_id=0)\n"
            "LoadMicroBatch(buffer_id=1) RecvActivation(buffer_id=1) ForwardPass(buffer_id=1)\n");
  EXPECT_EQ(text(deepspeed_streams(StreamKind::data_parallel, 1, 2)[0]),
            "LoadMicroBatch(buffer_id=0) ForwardPass(buffer_id=0) BackwardPass(buffer_id=0)\n"
            "LoadMicroBatch(buffer_id=0) ForwardPass(buffer_id=0) BackwardPass(buffer_id=0) ReduceGrads() "
            "OptimizerStep()\n");
}

TEST(DeepspeedStream, RefusesWhatMakesNoStream) {
  EXPECT_EQ(text(deepspeed_streams(StreamKind::train, 2, 0)[0]), "\nReduceTiedGrads() ReduceGrads() OptimizerStep()\n");
  EXPECT_THROW((void)deepspeed_streams(StreamKind::train, 0, 1), InvalidArgument);
  EXPECT_THROW((void)deepspeed_streams(StreamKind::train, 2, -1), InvalidArgument);
  EXPECT_THROW((void)deepspeed_streams(StreamKind::inference, 1 << 14, 1 << 30), InvalidArgument);
  EXPECT_THROW((void)deepspeed_streams(StreamKind::data_parallel, 2, 1), InvalidArgument);
  EXPECT_THROW((void)deepspeed_streams(StreamKind::data_parallel, 1, 0), InvalidArgument);
}

TEST(Traces, ColossalaiTellsShapesAheadOfTheFirstActivation) {
  const Shape shape{.ranks = 2, .micro_batches = 1};
  const Trace trace = colossalai_trace(shape, false, false);
  EXPECT_EQ(text(trace[0]), "0F0,SEND_META ndims>1,SEND_META shape>1,P2P(SEND act0.0>1),P2P(RECV grad<1),0B0");
  EXPECT_EQ(text(trace[1]), "RECV_META ndims<0,RECV_META shape<0,P2P(RECV act<0),1F0,1B0,P2P(SEND grad1.0>0)");
  EXPECT_EQ(text(colossalai_trace(shape, true, true)[0]), "0F0,P2P(SEND act0.0>1)");
}

TEST(Traces, MegatronSendsToTheNextRankAheadOfReceivingFromIt) {
  const Shape shape{.ranks = 4, .micro_batches = 4, .stages_per_rank = 2};
  EXPECT_EQ(
      text(megatron_trace(shape, false, 4)[2]),
      "P2P(RECV act<1),2F0,P2P(RECV act<1;SEND act2.0>3),2F1,P2P(RECV act<1;SEND act2.1>3),2F2,P2P(RECV act<1;SEND "
      "act2.2>3),2F3,P2P(RECV act<1;SEND act2.3>3),6F0,P2P(RECV act<1;SEND act6.0>3),6F1,P2P(RECV act<1;SEND "
      "act6.1>3;RECV grad<3),6F2,6B0,P2P(SEND grad6.0>1;RECV act<1;SEND act6.2>3;RECV grad<3),6F3,6B1,P2P(SEND "
      "grad6.1>1;SEND act6.3>3;RECV grad<3),6B2,P2P(SEND grad6.2>1;RECV grad<3),6B3,P2P(SEND grad6.3>1;RECV "
      "grad<3),2B0,P2P(SEND grad2.0>1;RECV grad<3),2B1,P2P(SEND grad2.1>1;RECV grad<3),2B2,P2P(SEND grad2.2>1;RECV "
      "grad<3),2B3,P2P(SEND grad2.3>1)");
}

TEST(Traces, RefuseWhatTheFrameworksRefuse) {
  EXPECT_THROW((void)colossalai_trace({.ranks = 4, .micro_batches = 6, .stages_per_rank = 2}, false, true),
               InvalidArgument);
  EXPECT_THROW((void)megatron_trace({.ranks = 4, .micro_batches = 6, .stages_per_rank = 2}, true, 4), InvalidArgument);
  EXPECT_THROW((void)megatron_trace({.ranks = 1, .micro_batches = 6, .stages_per_rank = 2}, false, 1), InvalidArgument);
  EXPECT_THROW((void)megatron_trace({.ranks = 2, .micro_batches = 0}, false, 2), InvalidArgument);
}

std::string torch_csv_refusal(std::vector<std::string> rows, int micro_batches = 1) {
  try {
    (void)load_torch_csv(rows, {.ranks = 2, .micro_batches = micro_batches, .stages_per_rank = 1}, true);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TorchCsv, IsAsLenientAsPytorch) {
  EXPECT_EQ(torch_csv_refusal({"0F0abc, 0B0 ", "1F0,1B0"}), "accepted");
  EXPECT_EQ(torch_csv_refusal({"0F0,0F0,0B0", "1F0,1B0"}), "accepted");
  EXPECT_EQ(torch_csv_refusal({"0F0,(0B0;0F1)OVERLAP_F_B,0B1", "1F0,1I0,1F1,1B1,1W0"}, 2), "accepted");
}

TEST(TorchCsv, RefusesWithRankAndCell) {
  EXPECT_EQ(torch_csv_refusal({"0B0,0F0", "1F0,1B0"}), "schedule: rank 0 has 0B0, without its forward in front of it");
  EXPECT_EQ(torch_csv_refusal({"0F0,0B0,0W0", "1F0,1B0"}),
            "schedule: rank 0 has 0W0, without its input gradient in front of it");
  EXPECT_EQ(torch_csv_refusal({"0F0,0B0,1F0", "1F0,1B0"}), "schedule: rank 1 has 1F0, but its stage is on rank 0 too");
  EXPECT_EQ(torch_csv_refusal({"0F0,0B0", "1F0,1B0,5F0"}), "schedule: rank 1 has 5F0, but the stages are 0 to 1");
  EXPECT_EQ(torch_csv_refusal({"0F0,0B0"}), "schedule: there are 2 ranks, but 1 rows");
  EXPECT_EQ(torch_csv_refusal({"0F0,0SEND_F0,0B0", "1F0,1B0"}),
            "schedule: rank 0 has 0SEND_F0, which is no computation");
  EXPECT_EQ(torch_csv_refusal({"0F0,0X0", "1F0,1B0"}).substr(0, 36), "schedule: line 1, column 2: '0X0' is");
  for (const char* row : {"0F0", "0F0,0I0", "0B0", "0F1,0B0"})
    EXPECT_NE(torch_csv_refusal({row, "1F0,1B0"}), "accepted") << row;
}

}  // namespace
}  // namespace plumbline::schedules
