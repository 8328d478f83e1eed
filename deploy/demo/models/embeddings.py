"""Sentence embeddings of all-MiniLM-L6-v2 behind OpenAI's ``/v1/embeddings``, on a Unix socket.

Called with the model's folder and the socket. The model is a small BERT: NumPy computes it on a
CPU, without PyTorch.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field
from safetensors.numpy import load_file
from tokenizers import Tokenizer

NAME = "all-minilm-l6-v2"
MOST_TOKENS = 256  # that it was trained with
AT_ONCE = 32  # texts


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, exact to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    terms = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    sum_ = sum(term * t**power for power, term in enumerate(terms, 1))
    return np.sign(x) * (1 - sum_ * np.exp(-x * x))


class Encoder:
    """The model: texts to vectors of length 1."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(MOST_TOKENS)
        self.tokenizer.enable_padding()

    def encode(self, texts: list[str]) -> tuple[np.ndarray, int]:
        """Return the vectors of texts, and the number of their tokens."""
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([each.ids for each in encoded])
        mask = np.array([each.attention_mask for each in encoded], dtype=np.float32)
        w, place = self.weights, "embeddings."
        x = w[place + "word_embeddings.weight"][ids]
        x = x + w[place + "position_embeddings.weight"][: ids.shape[1]]
        x = self._normal(x + w[place + "token_type_embeddings.weight"][0], place)
        hidden = (1 - mask)[:, None, None, :] * -1e9
        for number in range(self.layers):
            x = self._layer(x, hidden, f"encoder.layer.{number}.")
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True), int(mask.sum())

    def _layer(self, x: np.ndarray, hidden: np.ndarray, place: str) -> np.ndarray:
        many, length, width = x.shape

        def head(name: str) -> np.ndarray:
            values = self._linear(x, f"{place}attention.self.{name}")
            return values.reshape(many, length, self.heads, -1).transpose(0, 2, 1, 3)

        query, key, value = head("query"), head("key"), head("value")
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1]) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True)) @ value
        seen = seen.transpose(0, 2, 1, 3).reshape(many, length, width)
        x = self._normal(
            x + self._linear(seen, place + "attention.output.dense"), place + "attention.output."
        )
        inner = self._linear(x, place + "intermediate.dense")
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        return self._normal(x + self._linear(inner, place + "output.dense"), place + "output.")

    def _linear(self, x: np.ndarray, place: str) -> np.ndarray:
        return x @ self.weights[f"{place}.weight"].T + self.weights[f"{place}.bias"]

    def _normal(self, x: np.ndarray, place: str) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{place}LayerNorm.weight"] + self.weights[f"{place}LayerNorm.bias"]


_Text = Annotated[str, Field(max_length=100_000)]


class Asked(BaseModel):
    """Request of OpenAI's shape."""

    input: _Text | Annotated[list[_Text], Field(min_length=1, max_length=2048)]
    model: str = NAME
    encoding_format: Literal["float", "base64"] = "float"


def application(encoder: Encoder) -> FastAPI:
    """Return the HTTP application of an encoder."""
    app = FastAPI(title=NAME)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": NAME, "object": "model", "owned_by": "site"}]}

    @app.post("/v1/embeddings")
    def embeddings(asked: Asked) -> dict[str, Any]:
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        vectors, tokens = [], 0
        for first in range(0, len(texts), AT_ONCE):
            some, number = encoder.encode(texts[first : first + AT_ONCE])
            vectors.extend(some.astype("<f4"))
            tokens += number

        def written(vector: np.ndarray) -> str | list[float]:
            if asked.encoding_format == "base64":  # what the package openai asks for
                return base64.b64encode(vector.tobytes()).decode()
            return [round(float(value), 7) for value in vector]

        data = [
            {"object": "embedding", "index": index, "embedding": written(vector)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": NAME, "data": data, "usage": usage}

    return app


if __name__ == "__main__":
    folder, socket = sys.argv[1:]
    server = application(Encoder(Path(folder)))
    uvicorn.run(server, uds=socket, log_level="warning", timeout_keep_alive=75)
