"""More trainings, of whose allocations histories are recorded; those of jobs.py are the first of them.

    lstm       an LSTM on text whose state is carried from step to step (truncated backpropagation through time), Adam
    gan        a generator and a discriminator of images, an optimizer each
    unet       a U-Net that learns to take noise from images at random times (a diffusion model), AdamW
    lora       a GPT whose weights are frozen but for two thin matrices beside each projection, AdamW
    evaluated  the GPT of jobs.py, in which every third step evaluates instead

>>> job = make("unet", "full", tidy=False)
>>> job.step(0)
"""

from __future__ import annotations

import dataclasses

import torch
from torch import nn
from torch.nn import functional

from tests.bench import jobs


class Recurrent(nn.Module):
    """Embedding, LSTM and a projection; the state is the caller's."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, tokens: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor] | None) -> tuple:
        out, state = self.lstm(self.tokens(tokens), state)
        return self.head(out), state


@dataclasses.dataclass
class Carried(jobs.Job):
    state: tuple[torch.Tensor, torch.Tensor] | None = None

    def loss(self, i: int) -> torch.Tensor:
        inputs, targets = self.batch(i)
        out, (hidden, cell) = self.model(inputs, self.state)
        self.state = hidden.detach(), cell.detach()
        loss = functional.cross_entropy(out.flatten(0, -2), targets.flatten())
        self.keep(out, loss)
        return loss


def _lstm(full: bool) -> jobs.Job:
    vocabulary, width, length, batch = (10_000, 1024, 64, 64) if full else (64, 16, 8, 4)

    def draw(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(0, vocabulary, (batch, length + 1), generator=jobs.generator(i)).cuda()
        return tokens[:, :-1], tokens[:, 1:]

    model = Recurrent(vocabulary, width, layers=2).cuda()
    return Carried(model, torch.optim.Adam(model.parameters(), 1e-3), draw)


@dataclasses.dataclass
class Gan(jobs.Job):
    """``model`` generates, ``judge`` says what is real."""

    judge: nn.Module = dataclasses.field(default_factory=nn.Identity)
    judges: torch.optim.Optimizer | None = None

    def step(self, i: int) -> torch.Tensor:
        assert self.judges
        real, noise = self.batch(i)
        yes, no = (torch.full((len(real),), value, device="cuda") for value in (1.0, 0.0))
        says = functional.binary_cross_entropy_with_logits
        self.judges.zero_grad(set_to_none=True)
        fake = self.model(noise)
        judged = says(self.judge(real).flatten(), yes) + says(self.judge(fake.detach()).flatten(), no)
        judged.backward()
        self.judges.step()
        self.optimizer.zero_grad(set_to_none=True)
        loss = says(self.judge(fake).flatten(), yes)
        loss.backward()
        self.optimizer.step()
        if self.tidy:
            self.optimizer.zero_grad(set_to_none=True)
            self.judges.zero_grad(set_to_none=True)
        self.keep(fake, judged, loss)
        return loss.detach()


def _gan(full: bool) -> jobs.Job:
    width, batch = (128, 128) if full else (4, 4)
    up = [nn.ConvTranspose2d(100, 8 * width, 4), nn.BatchNorm2d(8 * width), nn.ReLU()]
    down: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for wide in (8 * width, 4 * width, 2 * width):
        up += [nn.ConvTranspose2d(wide, wide // 2, 4, 2, 1), nn.BatchNorm2d(wide // 2), nn.ReLU()]
    for wide in (width, 2 * width, 4 * width):
        down += [nn.Conv2d(wide, 2 * wide, 4, 2, 1), nn.BatchNorm2d(2 * wide), nn.LeakyReLU(0.2)]
    model = nn.Sequential(*up, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh()).cuda()
    judge = nn.Sequential(*down, nn.Conv2d(8 * width, 1, 4)).cuda()

    def images(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = jobs.generator(i)
        real = torch.randn(batch, 3, 64, 64, generator=draw).cuda()
        return real, torch.randn(batch, 100, 1, 1, generator=draw).cuda()

    optimizers = [torch.optim.Adam(part.parameters(), 2e-4, (0.5, 0.999)) for part in (model, judge)]
    return Gan(model, optimizers[0], images, judge=judge, judges=optimizers[1])


class Timed(nn.Module):
    """Two convolutions with the time between them, added to their input."""

    def __init__(self, inner: int, outer: int, times: int) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.GroupNorm(4, inner), nn.SiLU(), nn.Conv2d(inner, outer, 3, padding=1))
        self.after = nn.Sequential(nn.GroupNorm(4, outer), nn.SiLU(), nn.Conv2d(outer, outer, 3, padding=1))
        self.time = nn.Linear(times, outer)
        self.short = nn.Identity() if inner == outer else nn.Conv2d(inner, outer, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.short(x) + self.after(self.before(x) + self.time(time)[:, :, None, None])


class UNet(nn.Module):
    """O. Ronneberger et al., 2015, with residual blocks and the time as J. Ho et al., 2020, have it."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        times = 4 * width
        self.time = nn.Sequential(nn.Linear(1, times), nn.SiLU(), nn.Linear(times, times))
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(Timed(w, w, times) for w in widths)
        self.smaller = nn.ModuleList(nn.Conv2d(w, 2 * w, 3, 2, 1) for w in widths)
        self.middle = Timed(2 * widths[-1], 2 * widths[-1], times)
        self.larger = nn.ModuleList(nn.Conv2d(2 * w, w, 3, padding=1) for w in reversed(widths))
        self.up = nn.ModuleList(Timed(2 * w, w, times) for w in reversed(widths))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        time, x, skipped = self.time(time), self.first(x), []
        for block, smaller in zip(self.down, self.smaller, strict=True):
            x = block(x, time)
            skipped.append(x)
            x = smaller(x)
        x = self.middle(x, time)
        for larger, block in zip(self.larger, self.up, strict=True):
            x = larger(functional.interpolate(x, scale_factor=2.0))
            x = block(torch.cat((x, skipped.pop()), 1), time)
        return self.last(x)


@dataclasses.dataclass
class Denoising(jobs.Job):
    def loss(self, i: int) -> torch.Tensor:
        images, noise = self.batch(i)
        time = torch.rand(len(images), 1, generator=jobs.generator(i)).cuda()
        share = time[:, :, None, None]
        out = self.model((1 - share) * images + share * noise, time)
        loss = functional.mse_loss(out, noise)
        self.keep(out, loss)
        return loss


def _unet(full: bool) -> jobs.Job:
    width, side, batch = (128, 64, 16) if full else (8, 16, 2)

    def images(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.randn(2, batch, 3, side, side, generator=jobs.generator(i)).cuda()
        return both[0], both[1]

    model = UNet(width, levels=3).cuda()
    return Denoising(model, torch.optim.AdamW(model.parameters(), 1e-4), images)


class Adapted(nn.Module):
    """E. Hu et al., 2021, "LoRA": a frozen projection and the product of two thin matrices."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen
        self.inward = nn.Linear(frozen.in_features, rank, bias=False)
        self.outward = nn.Linear(rank, frozen.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(x) + self.outward(self.inward(x))


def _lora(full: bool) -> jobs.Job:
    job = jobs.make("gpt", "full" if full else "small")
    job.model.requires_grad_(False)
    for layer in list(job.model.layers)[:-1]:
        layer.attention.inward = Adapted(layer.attention.inward, rank=8)
        layer.attention.outward = Adapted(layer.attention.outward, rank=8)
    job.model.cuda()
    job.optimizer = torch.optim.AdamW([p for p in job.model.parameters() if p.requires_grad], 1e-3)
    return job


@dataclasses.dataclass
class Evaluated(jobs.Job):
    def step(self, i: int) -> torch.Tensor:
        if i % 3 != 2:
            return super().step(i)
        with torch.no_grad():
            return torch.stack([self.loss(4 * i + j) for j in range(4)]).mean()


def _evaluated(full: bool) -> jobs.Job:
    job = jobs.make("gpt", "full" if full else "small")
    return Evaluated(job.model, job.optimizer, job.batch, autocast=job.autocast)


_MAKERS = {"lstm": _lstm, "gan": _gan, "unet": _unet, "lora": _lora, "evaluated": _evaluated}
KINDS = (*jobs.KINDS, *_MAKERS)


def make(kind: str, size: str = "full", tidy: bool = True) -> jobs.Job:
    """As ``jobs.make``, of all kinds, tidy or not."""
    if kind in jobs.KINDS:
        job = jobs.make(kind, size)
    else:
        torch.manual_seed(0)
        job = _MAKERS[kind](size == "full")
    job.tidy = tidy
    return job
