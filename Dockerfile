# docker build -t amped . && docker run --rm amped estimate --model "Llama 3 8B" --system "DGX H100" --gpus 64
FROM python:3.11-slim
WORKDIR /amped
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[interop,report,app]'
RUN useradd --create-home user
USER user
WORKDIR /home/user
ENTRYPOINT ["amped"]
CMD ["estimate"]
