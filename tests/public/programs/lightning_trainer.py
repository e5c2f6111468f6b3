"""A small perceptron by the ``Trainer`` of Lightning: epochs, validations, checkpoints. ``FOLDER PRECISION``."""

from __future__ import annotations

import sys

import lightning
import torch
from torch import nn


class Points(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        random = torch.Generator().manual_seed(index)
        return torch.randn(64, generator=random), torch.randint(0, 8, (), generator=random)


class Perceptron(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 8)
        )

    def loss(self, batch: tuple[torch.Tensor, torch.Tensor], name: str) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        print(name, loss.item().hex(), flush=True)
        return loss

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        return self.loss(batch, "loss")

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        self.loss(batch, "val_loss")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-3)


def main(folder: str, precision: str) -> None:
    torch.set_num_threads(1)
    lightning.seed_everything(3)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="gpu",
        devices=1,
        precision=precision,  # type: ignore[arg-type]
        limit_train_batches=100,
        limit_val_batches=3,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
    )
    loaders = [torch.utils.data.DataLoader(Points(), batch_size=8) for _ in range(2)]
    trainer.fit(Perceptron(), *loaders)


if __name__ == "__main__":
    main(*sys.argv[1:])
