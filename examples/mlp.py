"""A two-layer network in ten lines: lazy tensor code, compiled when its values are asked for."""
import numpy as np

from morok import Tensor


def main() -> None:
    """Run the network on random input and print what came out."""
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((32, 64), dtype=np.float32))
    w1, b1 = Tensor(rng.standard_normal((64, 128), dtype=np.float32)), Tensor.zeros(128)
    w2, b2 = Tensor(rng.standard_normal((128, 10), dtype=np.float32)), Tensor.zeros(10)
    hidden = (x @ w1 + b1).relu()               # nothing has run yet
    probabilities = (hidden @ w2 + b2).softmax()
    print(probabilities)                        # <Tensor float32 (32, 10) on CPU>
    print("each row sums to", round(probabilities.sum(1).mean().item(), 6))
    print("classes of the first rows:", probabilities.argmax(1)[:5].tolist())


if __name__ == "__main__":
    main()
