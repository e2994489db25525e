"""`python -m bench.demo` is `make demo`."""

from bench.demo.demo import main

if __name__ == "__main__":
    main()
