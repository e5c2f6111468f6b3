// A training in C++ that takes turns with other jobs on one GPU, Python's or its own kind.
//
//   train [STEPS] [NAME]
//
// Learns a sine with a small network. Two lines are Hocket's: the job, and the step.
#include <hocket.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

torch::nn::Sequential MakeModel(torch::Device device) {
  torch::nn::Sequential model(torch::nn::Linear(1, 256), torch::nn::Tanh(), torch::nn::Linear(256, 256),
                              torch::nn::Tanh(), torch::nn::Linear(256, 1));
  model->to(device);
  return model;
}

float Train(hocket::Job& job, int steps) {
  torch::manual_seed(0);
  const torch::Device device = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
  torch::nn::Sequential model = MakeModel(device);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  float loss_value = 0;
  for (int i = 1; i <= steps; ++i) {
    auto step = job.Step();
    const torch::Tensor x = (torch::rand({512, 1}) * 6.28F).to(device);
    torch::Tensor loss = torch::mse_loss(model->forward(x), torch::sin(x));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss_value = loss.item<float>();
    if (i % 50 == 0 || i == steps) std::printf("step %d  loss %.9g\n", i, loss_value);
  }
  return loss_value;
}

}  // namespace

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  hocket::Job job(argc > 2 ? argv[2] : "sine");  // before the first use of the GPU
  Train(job, steps);
  const hocket::JobInfo info = job.Info();
  std::printf("job %s on %s: %llu steps in %llu turns\n", info.name.c_str(), info.device_name.c_str(),
              static_cast<unsigned long long>(info.steps), static_cast<unsigned long long>(info.turns));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "train: %s\n", error.what());
  return 1;
}
