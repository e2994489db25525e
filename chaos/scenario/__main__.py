"""`python -m chaos.scenario SCENARIO` runs one kind of fault. Without a name it runs all."""

from chaos.scenario.run import main

if __name__ == "__main__":
    main()
