"""A small GPT-2 by the ``Trainer`` of transformers: micro-batches, evaluations, checkpoints. ``FOLDER WORKERS``."""

from __future__ import annotations

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

WORDS = 512
LENGTH = 64


class Text(torch.utils.data.Dataset):
    def __init__(self, first: int, many: int) -> None:
        self.first, self.many = first, many

    def __len__(self) -> int:
        return self.many

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        random = torch.Generator().manual_seed(self.first + index)
        words = torch.randint(0, WORDS, (LENGTH,), generator=random)
        return {"input_ids": words, "labels": words}


def main(folder: str, workers: str) -> None:
    set_seed(1)
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=256, n_layer=4, n_head=4))
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=20,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=10,
        save_steps=10,
        dataloader_num_workers=int(workers),
        report_to=[],
        disable_tqdm=True,
        seed=1,
    )
    trainer = Trainer(model, arguments, train_dataset=Text(0, 1000), eval_dataset=Text(5000, 16))
    trainer.train()
    for row in trainer.state.log_history:
        for name in ("loss", "grad_norm", "eval_loss"):
            if name in row:
                print(name, row["step"], float(row[name]).hex())


if __name__ == "__main__":
    main(*sys.argv[1:])
