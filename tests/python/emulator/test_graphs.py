"""CUDA graphs in values mode: what was captured is computed again at each launch, over the same memory."""

from __future__ import annotations


def test_a_capture_changes_nothing_and_a_launch_computes(emulator):
    assert (
        emulator.output("""
x, total = torch.full((4,), 2.0, device='cuda'), torch.zeros(4, device='cuda')
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 3
    total.add_(y)
torch.cuda.synchronize(); captured = total.tolist()
graph.replay(); x.fill_(5.0); graph.replay()
print(captured, y.tolist(), total.tolist())
""")
        == "[0.0, 0.0, 0.0, 0.0] [15.0, 15.0, 15.0, 15.0] [21.0, 21.0, 21.0, 21.0]"
    )


TRAIN = """
def training(kind):
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.Dropout(0.5), nn.LayerNorm(8), nn.Linear(8, 2)]
    model = nn.Sequential(*layers).cuda() if kind != 'lstm' else None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, capturable=True)
    x, loss_of = torch.zeros(5, 6, device='cuda'), None
    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).pow(2).mean(); loss.backward(); optimizer.step()
        return loss
    draw = torch.Generator().manual_seed(3)
    side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3): step()
    torch.cuda.current_stream().wait_stream(side)
    if kind == 'graph':
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss_of = step()
    losses = []
    torch.manual_seed(9)
    for _ in range(5):
        x.copy_(torch.randn(5, 6, generator=draw))
        if kind == 'graph': graph.replay(); losses.append(loss_of.item().hex())
        else: losses.append(step().item().hex())
    return losses, [p.detach().cpu() for p in model.parameters()]
"""


def test_a_captured_training_step_with_dropout_gives_the_bits_of_the_same_step_uncaptured(emulator):
    assert (
        emulator.output(
            TRAIN
            + """
plain, graph = training('plain'), training('graph')
print(plain[0] == graph[0], all(torch.equal(a, b) for a, b in zip(plain[1], graph[1])), len(set(graph[0])))
"""
        )
        == "True True 5"
    )


def test_a_captured_recurrent_layer_gives_the_bits_of_the_same_layer_uncaptured(emulator):
    assert (
        emulator.output("""
torch.manual_seed(0)
layer = nn.LSTM(3, 4, 2).cuda()
x, given = torch.zeros(5, 2, 3, device='cuda'), torch.randn(5, 2, 3)
def step():
    for p in layer.parameters():
        if p.grad is not None: p.grad.zero_()
    y, _ = layer(x); y.pow(2).sum().backward()
    return y
side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side): step(); step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): y = step()
x.copy_(given); graph.replay()
launched = [y.cpu()] + [p.grad.cpu() for p in layer.parameters()]
plain = [step().cpu()] + [p.grad.cpu() for p in layer.parameters()]
print(all(torch.equal(a, b) for a, b in zip(launched, plain)), launched[0].abs().sum().item() > 0)
""")
        == "True True"
    )


def test_a_captured_callable_trains(emulator):
    assert (
        emulator.output("""
torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).cuda()
import copy
graphed = torch.cuda.make_graphed_callables(copy.deepcopy(plain), (torch.randn(3, 4, device='cuda'),))
x = torch.randn(3, 4, device='cuda')
def gradients(model):
    model.zero_grad(); model(x).pow(2).sum().backward()
    return [p.grad.cpu() for p in model.parameters()]
print(all(torch.equal(a, b) for a, b in zip(gradients(plain), gradients(graphed))))
""")
        == "True"
    )


def test_waiting_in_a_capture_is_the_error_that_it_is_on_a_gpu(emulator):
    done = emulator.run("""
x = torch.ones(2, device='cuda')
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    (x * 2).sum().item()
""")
    assert done.returncode == 1
    assert "capturing" in done.stderr


def test_a_launch_that_cannot_be_computed_says_why(emulator):
    done = emulator.run("""
x, at = torch.ones(2, device='cuda'), torch.zeros(1, 2, dtype=torch.long, device='cuda')
sparse = torch.sparse_coo_tensor(at, x, (3,), is_coalesced=True, check_invariants=False)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = sparse.mul(2)
graph.replay()
""")
    assert done.returncode == 1
    assert "in a CUDA graph: sparse and nested tensors" in done.stderr
