"""`python -m chaos.versions` is `make soak-versions`."""

from chaos.versions.run import main

if __name__ == "__main__":
    main()
