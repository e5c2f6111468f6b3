"""What programs do with torch.cuda, on the emulated GPU in values mode."""

from __future__ import annotations

import pathlib
import subprocess
import sys

OUTLIVED = pathlib.Path(__file__).parents[2] / "e2e/programs/outlived.py"
TRAIN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.b = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.t = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.1)
        self.e, self.o = nn.Linear(256, 64), nn.Linear(64, 10)
    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.b(self.c(x))), 2).flatten(2).transpose(1, 2).reshape(x.size(0), -1, 256)
        return self.o(self.t(self.e(x)).mean(1))
def train(device):
    torch.manual_seed(0)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
    draw, losses = torch.Generator().manual_seed(1), []
    torch.manual_seed(2)
    for _ in range(6):
        x, y = torch.randn(8, 1, 16, 16, generator=draw), torch.randint(0, 10, (8,), generator=draw)
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad(); loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step()
        losses.append(loss.item().hex())
    return losses
"""


def test_a_training_gives_the_cpus_bits_and_sets_no_flag(emulator):
    assert emulator.output(TRAIN + "print(train('cpu') == train('cuda'))") == "True"


def test_a_training_passes_check_mode(emulator):
    assert emulator.output(TRAIN + "print(train('cpu') == train('cuda'))") == "True"


def test_the_device_says_that_it_is_emulated(emulator):
    assert "emulated" in emulator.output("print(torch.cuda.get_device_name())").lower()


def test_recurrent_layers_train_with_the_cpus_bits(emulator):
    assert (
        emulator.output("""
def run(kind, device):
    torch.manual_seed(0)
    layer = kind(5, 7, 2, bidirectional=True, dropout=0.5).to(device)
    x = torch.randn(6, 3, 5).to(device).requires_grad_()
    torch.manual_seed(1)
    layer(x)[0].pow(2).sum().backward()
    return [p.grad.cpu() for p in layer.parameters()] + [x.grad.cpu()]
print(all(torch.equal(a, b) for kind in (nn.LSTM, nn.GRU, nn.RNN)
          for a, b in zip(run(kind, 'cpu'), run(kind, 'cuda'))))
""")
        == "True"
    )


def test_attention_works_whatever_backend_is_asked_for(emulator):
    assert (
        emulator.output("""
from torch.nn.attention import sdpa_kernel, SDPBackend as B
def run(device, backend=None):
    torch.manual_seed(0)
    q = torch.randn(2, 4, 16, 8).to(device).requires_grad_()
    import contextlib
    with sdpa_kernel(backend) if backend else contextlib.nullcontext():
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    y.sum().backward()
    return torch.stack([y.detach().cpu(), q.grad.cpu()])
cpu = run('cpu')
print(torch.equal(cpu, run('cuda')), torch.equal(cpu, run('cuda', B.FLASH_ATTENTION)),
      all(torch.allclose(cpu, run('cuda', b), atol=1e-5) for b in (B.EFFICIENT_ATTENTION, B.CUDNN_ATTENTION, B.MATH)))
""")
        == "True True True"
    )


def test_the_same_seed_gives_the_cpus_numbers_and_a_restored_state_gives_them_again(emulator):
    assert (
        emulator.output("""
def draws(device):
    g = torch.Generator(device).manual_seed(3)
    return [torch.randn(20, generator=g, device=device).cpu(), torch.rand(5, generator=g, device=device).cpu(),
            torch.randperm(9, generator=g, device=device).cpu()]
same = all(torch.equal(a, b) for a, b in zip(draws('cpu'), draws('cuda')))
torch.rand(3, device='cuda'); state = torch.cuda.get_rng_state()
first = torch.rand(4, device='cuda'); torch.cuda.set_rng_state(state)
print(same, torch.equal(first, torch.rand(4, device='cuda')))
""")
        == "True True"
    )


def test_every_attention_backend_can_be_chosen_and_trains(emulator):
    assert (
        emulator.output("""
from torch.nn.attention import sdpa_kernel, SDPBackend as B
def run(device, backends, **how):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 16, 8).to(device).requires_grad_() for _ in range(3))
    with sdpa_kernel(backends):
        y = F.scaled_dot_product_attention(q, k, v, **how)
    y.pow(2).sum().backward()
    return torch.stack([t.detach().cpu() for t in (y, q.grad, k.grad, v.grad)])
mask = torch.ones(16, 16, dtype=torch.bool).tril()
for backends in ([B.MATH], [B.FLASH_ATTENTION], [B.EFFICIENT_ATTENTION], [B.CUDNN_ATTENTION],
                 [B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION, B.MATH]):
    masked = run('cuda', backends, attn_mask=mask.cuda())
    causal = run('cuda', backends, is_causal=True)
    expected = run('cpu', [B.MATH], is_causal=True)
    assert torch.allclose(causal, expected, atol=1e-5) and torch.allclose(masked, expected, atol=1e-5), backends
print('same')
""")
        == "same"
    )


def test_an_embedding_with_sparse_gradients_gives_the_cpus_bits(emulator):
    assert (
        emulator.output("""
def run(device):
    torch.manual_seed(0)
    table = nn.Embedding(30, 6, sparse=True, padding_idx=0).to(device)
    bag = nn.EmbeddingBag(30, 6, mode='sum', sparse=True).to(device)
    optimizer = torch.optim.SparseAdam([*table.parameters(), *bag.parameters()], 0.1)
    for rows in ([1, 4, 4, 0], [2, 4, 29, 7]):
        rows = torch.tensor(rows, device=device)
        (table(rows).pow(2).sum() + bag(rows[None]).pow(2).sum()).backward()
        kind = table.weight.grad.layout, bag.weight.grad.layout
        optimizer.step(); optimizer.zero_grad()
    return kind, table.weight.detach().cpu(), bag.weight.detach().cpu()
a, b = run('cpu'), run('cuda')
print(a[0] == b[0] == (torch.sparse_coo, torch.sparse_coo), torch.equal(a[1], b[1]), torch.equal(a[2], b[2]))
""")
        == "True True True"
    )


def test_linear_algebra_gives_the_cpus_bits(emulator):
    assert (
        emulator.output("""
L = torch.linalg
torch.manual_seed(0)
a = torch.randn(3, 6, 6); spd = a @ a.mT + 6 * torch.eye(6); b = torch.randn(3, 6, 2)
calls = {
    'svd': lambda a, s, b: L.svd(a), 'svdvals': lambda a, s, b: L.svdvals(a), 'qr': lambda a, s, b: L.qr(a),
    'eigh': lambda a, s, b: L.eigh(s), 'eig': lambda a, s, b: L.eig(a), 'cholesky': lambda a, s, b: L.cholesky(s),
    'solve': lambda a, s, b: L.solve(a, b), 'lstsq': lambda a, s, b: L.lstsq(a, b, driver='gels').solution,
    'lu': lambda a, s, b: L.lu(a), 'inv': lambda a, s, b: L.inv(a), 'pinv': lambda a, s, b: L.pinv(a),
    'det': lambda a, s, b: L.det(a), 'slogdet': lambda a, s, b: L.slogdet(a), 'norm': lambda a, s, b: L.norm(a),
    'matrix_exp': lambda a, s, b: L.matrix_exp(a), 'rank': lambda a, s, b: L.matrix_rank(a),
    'triangular': lambda a, s, b: L.solve_triangular(s.tril(), b, upper=False),
    'cond': lambda a, s, b: L.cond(a), 'householder': lambda a, s, b: L.householder_product(*torch.geqrf(a)),
}
for name, call in calls.items():
    on_cpu, on_cuda = (tuple(x) if isinstance(x, tuple) else (x,) for x in
                       (call(a, spd, b), call(a.cuda(), spd.cuda(), b.cuda())))
    # What LAPACK makes of a least-squares problem depends on where in memory it lies, on the CPU too.
    same = torch.allclose if name == 'lstsq' else torch.equal
    assert all(y.is_cuda and same(x, y.cpu()) for x, y in zip(on_cpu, on_cuda)), name
try: L.cholesky(-torch.eye(3, device='cuda')); print('no error')
except L.LinAlgError as error: print('positive' in str(error))
""")
        == "True"
    )


def test_a_gradient_that_overflows_makes_the_scaler_skip_its_step(emulator):
    assert (
        emulator.output("""
model = nn.Linear(4, 4).cuda(); optimizer = torch.optim.SGD(model.parameters(), 1.0)
scaler = torch.amp.GradScaler('cuda', init_scale=2.0 ** 15)
before, scales = model.weight.clone(), []
for value in (1e30, 1.0):
    with torch.autocast('cuda', dtype=torch.bfloat16):
        loss = (model(torch.ones(2, 4, device='cuda')) * value).sum() * value
    optimizer.zero_grad(); scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
    scales.append(scaler.get_scale()); print(torch.equal(before, model.weight), end=' ')
print(scales)
""")
        == "True False [16384.0, 16384.0]"
    )


def test_generators_are_independent_and_their_state_travels(emulator):
    assert (
        emulator.output("""
a, b = torch.Generator('cuda').manual_seed(1), torch.Generator('cuda').manual_seed(1)
first = torch.randn(9, generator=a, device='cuda')
torch.rand(3, device='cuda')
same = torch.equal(first, torch.randn(9, generator=b, device='cuda'))
state = a.get_state(); x = torch.randint(0, 99, (5,), generator=a, device='cuda')
b.set_state(state); y = torch.randint(0, 99, (5,), generator=b, device='cuda')
print(same, torch.equal(x, y), a.initial_seed(), a.device.type, b.get_offset() == a.get_offset() > 0)
""")
        == "True True 1 cuda True"
    )


def test_checkpointing_recomputes_the_same_dropout(emulator):
    assert (
        emulator.output("""
from torch.utils.checkpoint import checkpoint
m = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).cuda()
def gradient(f):
    torch.manual_seed(4); m.zero_grad(); f(torch.ones(2, 8, device='cuda')).sum().backward()
    return [p.grad.clone() for p in m.parameters()]
a, b = gradient(m), gradient(lambda x: checkpoint(m, x, use_reentrant=False))
print(all(torch.equal(x, y) for x, y in zip(a, b)))
""")
        == "True"
    )


def test_amp_with_grad_scaler_fused_adamw_and_sparse_adam_step(emulator):
    assert (
        emulator.output("""
m, e = nn.Linear(8, 8).cuda(), nn.Embedding(20, 8, sparse=True).cuda()
fused, sparse = torch.optim.AdamW(m.parameters(), fused=True), torch.optim.SparseAdam(e.parameters())
scaler, before = torch.amp.GradScaler('cuda'), [m.weight.clone(), e.weight.clone()]
for _ in range(2):
    with torch.autocast('cuda', dtype=torch.float16):
        loss = m(e(torch.tensor([1, 2, 2], device='cuda'))).pow(2).mean()
    fused.zero_grad(); sparse.zero_grad(); scaler.scale(loss).backward()
    scaler.step(fused); e.weight.grad = e.weight.grad.coalesce() / scaler.get_scale(); sparse.step(); scaler.update()
print(not torch.equal(before[0], m.weight), not torch.equal(before[1], e.weight))
""")
        == "True True"
    )


def test_loader_workers_feed_pinned_memory(emulator):
    assert (
        emulator.output("""
from torch.utils.data import DataLoader, TensorDataset
x = torch.arange(40.)
if __name__ == '__main__':
    loader = DataLoader(TensorDataset(x), 8, num_workers=2, pin_memory=True)
    print(sum(b.cuda(non_blocking=True).sum().item() for (b,) in loader))
""")
        == "780.0"
    )


def test_a_kernel_without_a_cpu_twin_fails_by_name(emulator):
    done = emulator.run("torch._cslt_compress(torch.randn(32, 32, device='cuda', dtype=torch.half))")
    assert done.returncode != 0
    assert "aten::_cslt_compress" in done.stderr


def test_an_assertion_that_fails_on_the_device_is_heard_of_later_and_for_good(emulator):
    assert (
        emulator.output("""
x = torch.ones(4, device="cuda")
torch._assert_async(x[0])
torch._assert_async(x[0] - 1)
said = []
for ask in (torch.cuda.synchronize, lambda: x + 1, x.sum, lambda: torch.ones(1 << 20, device="cuda"), x.cpu):
    try:
        ask()
    except torch.AcceleratorError as error:
        said.append("device-side assert triggered" in str(error))
print(said, torch.cuda.device_count(), torch.cuda.get_device_name() != "")
""")
        == "[True, True, True, True, True] 1 True"
    )


def test_an_assertion_of_more_than_one_element_is_refused_where_it_is_made(emulator):
    assert (
        emulator.output("""
try:
    torch._assert_async(torch.ones(2, device="cuda"))
except RuntimeError as error:
    print("ambiguous" in str(error))
torch.cuda.synchronize()
""")
        == "True"
    )


def test_sleep_takes_its_time_on_the_stream_only(emulator):
    assert (
        emulator.output("""
import time
in_time = False
while not in_time:
    begun = time.monotonic()
    done = torch.cuda.Event(); torch.cuda._sleep(1980 * 2_000_000); done.record()
    early = done.query()
    in_time = time.monotonic() - begun < 2  # or this process was kept from asking until it was over
    torch.cuda.synchronize()
print(early, done.query())
""")
        == "False True"
    )


def test_compile_says_once_that_it_runs_through_aten(emulator):
    done = emulator.run("""
f = torch.compile(lambda x: x.sin() + 1); g = torch.compile(lambda x: x * 2)
print(f(torch.zeros(2, device='cuda')).tolist(), g(torch.ones(2, device='cuda')).tolist())
""")
    assert done.stdout.strip() == "[1.0, 1.0] [2.0, 2.0]", done.stderr[-2000:]
    assert done.stderr.count("runs its graphs through ATen") == 1


DDP = """
import os, sys, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank, folder = int(os.environ['RANK']), os.environ['FOLDER']
dist.init_process_group('nccl', init_method=f'file://{folder}/store', rank=rank, world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 3).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
draw = torch.Generator().manual_seed(rank)
for _ in range(3):
    optimizer.zero_grad(); model(torch.randn(5, 4, generator=draw).cuda()).pow(2).sum().backward(); optimizer.step()
t = torch.ones(3, device='cuda') * rank
dist.all_reduce(t); parts = [torch.empty(3, device='cuda') for _ in range(2)]; dist.all_gather(parts, t)
torch.save([p.detach().cpu() for p in model.parameters()] + [t.cpu(), parts[1].cpu()], f'{folder}/{rank}')
dist.barrier(); dist.destroy_process_group()
dist.init_process_group('nccl', init_method=f'file://{folder}/another', rank=rank, world_size=2)
dist.barrier(); os._exit(0)
"""


def test_two_ranks_train_over_gloo_in_nccls_name(emulator, tmp_path):
    import subprocess
    import sys

    import torch

    env = emulator.environment(FOLDER=str(tmp_path), MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", emulator.prelude + DDP],
            env=env | {"RANK": str(r), "LOCAL_RANK": str(r)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(2)
    ]
    said = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    first, second = (torch.load(tmp_path / str(r)) for r in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert first[2].tolist() == [1.0, 1.0, 1.0]
    assert [text.count("served by gloo") for text in said] == [1, 0], "once a program, though it is asked for twice"


def test_a_process_may_end_while_a_thread_of_pytorchs_asks_for_the_interpreters_lock(emulator):
    done = subprocess.run([sys.executable, OUTLIVED, "5"], env=emulator.environment(), capture_output=True, text=True)
    assert done.stdout == "5 of 5 ended well\n", done.stderr
