"""Which trainings of others are run unchanged, with what options, and what of their output is compared."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import struct
import sys
from collections.abc import Callable

PROGRAMS = pathlib.Path(__file__).parent / "programs"


@dataclasses.dataclass(frozen=True)
class Script:
    """A training program. ``{out}`` in its options is a folder of this run's own, in ``{out}/run`` it is started."""

    title: str
    needs: str  # the checkout that has it (a key of CHECKOUTS), or the package that it imports
    path: str  # in that checkout, or in PROGRAMS
    options: str
    memory: str  # of the device that two share: each fits by itself, both together do not
    says: str  # what is compared of its output: all that this pattern finds
    saves: str = ""  # and these files of `{out}`, if any: tensors for equal bits
    prepare: Callable[[pathlib.Path], None] | None = None  # puts its input into `{out}`


CHECKOUTS = {
    "nanogpt": "https://github.com/karpathy/nanoGPT, its data/shakespeare_char/prepare.py run",
    "examples": "https://github.com/pytorch/examples",
}


def digits(out: pathlib.Path) -> None:
    """Noise with labels, in the format and the place of MNIST's files."""
    rows = random.Random(1)
    folder = out / "data/MNIST/raw"
    folder.mkdir(parents=True)
    for name, many in (("train", 1200), ("t10k", 200)):
        labels = bytes(rows.randrange(10) for _ in range(many))
        images = b"".join(rows.randbytes(784 - 28 * label) + bytes(28 * label) for label in labels)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, many, 28, 28) + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, many) + labels)
    (out / "run/results").mkdir()  # where vae/main.py writes


def photographs(out: pathlib.Path) -> None:
    """Noise as JPEG files in two classes, as torchvision's ImageFolder reads them."""
    from PIL import Image

    noise = random.Random(2)
    for part, many in (("train", 12), ("val", 4)):
        for label in ("cat", "dog"):
            folder = out / "data" / part / label
            folder.mkdir(parents=True)
            for i in range(many):
                Image.frombytes("RGB", (96, 96), noise.randbytes(96 * 96 * 3)).save(folder / f"{i}.jpg")


def text(out: pathlib.Path) -> None:
    """Random words, in three files."""
    words = random.Random(3)
    (out / "data").mkdir()
    for name, lines in (("train", 1200), ("valid", 100), ("test", 100)):
        rows = (" ".join(f"w{words.randrange(4000)}" for _ in range(20)) for _ in range(lines))
        (out / "data" / f"{name}.txt").write_text("\n".join(rows) + "\n")


SCRIPTS = [
    Script(
        "karpathy/nanoGPT train.py",
        "nanogpt",
        "train.py",
        "config/train_shakespeare_char.py --compile=False --max_iters=30 --lr_decay_iters=30 --eval_interval=10 "
        "--eval_iters=2 --log_interval=1 --batch_size=4 --block_size=64 --n_layer=4 --n_head=4 --n_embd=256 "
        "--out_dir={out}",
        "96MiB",
        r"iter \d+: loss [\d.]+|step \d+: train loss [\d.]+, val loss [\d.]+",
        "ckpt.pt",
    ),
    Script(
        "pytorch/examples mnist/main.py",
        "examples",
        "mnist/main.py",
        "--epochs 2 --log-interval 1 --batch-size 16 --test-batch-size 100 --save-model",
        "64MiB",
        r"Loss: [\d.]+|Average loss: .*",
        "run/mnist_cnn.pt",
        digits,
    ),
    Script(
        "pytorch/examples siamese_network/main.py",
        "examples",
        "siamese_network/main.py",
        "--epochs 1 --log-interval 1 --batch-size 16 --test-batch-size 20 --save-model",
        "352MiB",
        r"Loss: [\d.]+|Average loss: .*",
        "run/siamese_network.pt",
        digits,
    ),
    Script(
        "pytorch/examples vae/main.py",
        "examples",
        "vae/main.py",
        "--epochs 3 --log-interval 1",
        "24MiB",
        r"Loss: [\d.]+|loss: [\d.]+",
        "run/results/*.png",
        digits,
    ),
    Script(
        "pytorch/examples dcgan/main.py (two optimizers)",
        "examples",
        "dcgan/main.py",
        "--dataset fake --accel --niter 1 --manualSeed 3 --batchSize 40 --ngf 24 --ndf 24 --outf {out}",
        "80MiB",
        r"Loss_D: .*",
        "net?_epoch_0.pth",
    ),
    Script(
        "pytorch/examples imagenet/main.py (ResNet-18, two loader workers)",
        "examples",
        "imagenet/main.py",
        "{out}/data -a resnet18 -b 4 -j 2 -p 1 --seed 2 --epochs 2",
        "256MiB",
        r"Epoch: \[\d+\]\[ *\d+/\d+\]|Loss \S+ \(\S+\)|Acc@\d +[\d.]+",
        "run/checkpoint.pth.tar",
        photographs,
    ),
    Script(
        "pytorch/examples word_language_model/main.py (LSTM, no DataLoader)",
        "examples",
        "word_language_model/main.py",
        "--accel --data {out}/data --epochs 1 --log-interval 1 --batch_size 16 --use-optimizer --lr 0.001 "
        "--save {out}/model.pt",
        "80MiB",
        r"loss +[\d.]+",
        "",
        text,
    ),
    Script(
        "Trainer of transformers (GPT-2, micro-batches, two loader workers)",
        "transformers",
        "transformers_trainer.py",
        "{out}/checkpoints 2",
        "96MiB",
        r".*loss \d+ \S+|grad_norm \d+ \S+",
        "checkpoints/checkpoint-20/*.pt",
    ),
    Script(
        "Trainer of Lightning (mixed precision with a scaler)",
        "lightning",
        "lightning_trainer.py",
        "{out}/checkpoints 16-mixed",
        "32MiB",
        r".*loss \S+",
        "checkpoints/checkpoints/*.ckpt",
    ),
]


def command(script: Script, checkout: pathlib.Path | None, out: pathlib.Path) -> list[str]:
    """What starts it. ``checkout``: of what it needs, None for a package."""
    return [sys.executable, str((checkout or PROGRAMS) / script.path), *script.options.format(out=out).split()]
