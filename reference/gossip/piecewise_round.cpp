#include "reference/gossip/detail/piecewise_round.hpp"

#include <algorithm>

#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::DType;

namespace {

constexpr std::size_t kAhead = 4, kMostAhead = 32;  // pieces
constexpr std::chrono::microseconds kLongWait{100};

}  // namespace

PiecewiseRound::PiecewiseRound(RoundMessages& messages, std::span<const Buffer> x)
    : messages_(messages),
      state_(messages.state),
      bucket_(state_.buckets.front()),
      length_(kPieceBytes / static_cast<std::int64_t>(size_of(bucket_.dtype))),
      ahead_(kAhead) {
  messages_.begin(bucket_);
  kept_ = state_.is_fairscale && !state_.is_lazy ? bucket_.kept : messages_.shares().kept;
  for (const Buffer& tensor : x)
    for (std::int64_t begin = 0; begin < tensor.count; begin += length_)
      pieces_.push_back({.x = comm::part_of(tensor, begin, std::min(length_, tensor.count - begin))});
  for (std::size_t memory = bucket_.of_pieces.size(); memory > 0; --memory) free_.push_back(memory - 1);
  had_.resize(messages_.peers().out.size());
  if (state_.options.confirms) confirmed_.resize(had_.size() * pieces_.size());
}

void PiecewiseRound::mix() {
  while (mixed_ < pieces_.size()) {
    for (; posted_ < std::min(mixed_ + ahead_, pieces_.size()); ++posted_) receive(posted_);
    if (state_.options.confirms) confirm();
    const bool is_next_sent = sent_ > std::min(mixed_ + 1, pieces_.size() - 1);
    if (!is_next_sent || (sent_ < posted_ && !is_ready(mixed_))) {
      send(sent_);
      ++sent_;
    } else {
      if (finish(mixed_) > kLongWait) ahead_ = std::min(2 * ahead_, kMostAhead);
      ++mixed_;
    }
  }
  for (Piece& piece : pieces_)
    for (comm::Work* work : {&piece.sent, &piece.told}) work->wait(state_.options.heartbeat);
}

void PiecewiseRound::go_over(const std::vector<std::size_t>& had) {
  for (Piece& piece : pieces_)
    for (comm::Work* work : {&piece.came, &piece.sent, &piece.told}) *work = comm::Work();
  had_ = had;
  posted_ = told_ = come_;
  const std::size_t least = had_.empty() ? 0 : *std::ranges::min_element(had_);
  sent_ = std::max(mixed_, least);
}

// What was free last is still in a cache.
PieceMemory& PiecewiseRound::memory_of(Piece& piece) {
  if (piece.memory == kNowhere) {
    if (free_.empty()) {
      free_.push_back(bucket_.of_pieces.size());
      bucket_.of_pieces.emplace_back();
    }
    piece.memory = free_.back();
    free_.pop_back();
  }
  return bucket_.of_pieces[piece.memory];
}

void PiecewiseRound::receive(std::size_t index) {
  Piece& piece = pieces_[index];
  PieceMemory& memory = memory_of(piece);
  memory.received.rewind();
  memory.came.clear();
  messages_.receives.clear();
  for (const int peer : messages_.peers().in) {
    memory.came.push_back(memory.received.take(state_.place, piece.x.count, bucket_.dtype));
    messages_.receives.push_back(receive_of(memory.came.back(), peer, state_.tag_of(Message::values)));
  }
  if (index == 0) messages_.add_received_weights();
  if (!messages_.receives.empty()) piece.came = state_.group->start(messages_.receives);
}

void PiecewiseRound::send(std::size_t index) {
  Piece& piece = pieces_[index];
  if (!state_.is_lazy && index >= scaled_) {
    scale(piece.x, kept_);
    scaled_ = index + 1;
  }
  MessageMemory& memory = memory_of(piece).sent;
  memory.rewind();
  messages_.parts.assign(1, piece.x);
  messages_.sends.clear();
  for (std::size_t i = 0; i < had_.size(); ++i) bucket_.has_sent[i] = index < had_[i];
  messages_.add_sends(bucket_, memory);
  if (index == 0) messages_.add_sent_weights(bucket_);
  if (state_.options.confirms) add_confirmations(index);
  if (!messages_.sends.empty()) piece.sent = state_.group->start(messages_.sends);
}

void PiecewiseRound::add_confirmations(std::size_t index) {
  for (std::size_t i = 0; i < had_.size(); ++i)
    if (index >= had_[i])
      messages_.sends.push_back(receive_of({&confirmed_[index * had_.size() + i], 1, DType::u8},
                                           messages_.peers().out[i], state_.tag_of(Message::confirmation)));
}

// Tells the peers that pieces of theirs are here.
void PiecewiseRound::confirm() {
  while (come_ < posted_ && pieces_[come_].came.test()) ++come_;
  for (; told_ < come_; ++told_) {
    static constexpr std::uint8_t here = 1;
    messages_.receives.clear();
    for (const int peer : messages_.peers().in)
      messages_.receives.push_back(send_of({&here, 1, DType::u8}, peer, state_.tag_of(Message::confirmation)));
    if (!messages_.receives.empty()) pieces_[told_].told = state_.group->start(messages_.receives);
  }
}

bool PiecewiseRound::is_ready(std::size_t index) { return pieces_[index].came.test() && pieces_[index].sent.test(); }

// Waits for the piece, and mixes it; how long it waited.
PiecewiseRound::Clock::duration PiecewiseRound::finish(std::size_t index) {
  Piece& piece = pieces_[index];
  const Clock::time_point begin = Clock::now();
  piece.came.wait(state_.options.heartbeat);
  if (state_.options.confirms) confirm();
  piece.sent.wait(state_.options.heartbeat);
  const Clock::duration waited = Clock::now() - begin;
  if (index == 0 && messages_.has_weight)
    for (const double weight : messages_.received_weights) weight_ = state_.rounded(bucket_, weight_ + weight);
  mix(piece.x, bucket_.of_pieces[piece.memory].came);
  free_.push_back(piece.memory);
  return waited;
}

// The operations of mix_work(), in its order.
void PiecewiseRound::mix(const Buffer& x, std::span<const Buffer> came) const {
  for (std::size_t i = 1; i < came.size(); ++i) add(came[0], came[i]);
  if (came.empty()) {
    if (state_.is_lazy) scale(x, kept_);
  } else if (state_.is_lazy) {
    add_and_scale(x, came[0], kept_);
  } else {
    add(x, came[0]);
  }
}

}  // namespace plumbline::gossip
